import { Age } from "./age.tsx";
import { Section } from "./page.tsx";
import { PlainText } from "./plain-text.tsx";

type Entry = {
  readonly at: string;
  readonly actor: string;
  readonly action: string;
  readonly reason: string | null;
};

/** What people did to the thing that a screen shows. `none`: the text if there is nothing. */
export function Audit({ entries, none }: { entries: readonly Entry[]; none: string }) {
  return (
    <Section title="Audit">
      <div className="card">
        {entries.length === 0 ? (
          <p className="muted card-padded">{none}</p>
        ) : (
          <ul className="audit">
            {entries.map(({ at, actor, action, reason }) => (
              <li key={`${at} ${actor} ${action}`}>
                <span className="life-at">
                  <Age at={at} />
                </span>
                <span>
                  <strong>{action}</strong> by <PlainText>{actor}</PlainText>
                  {reason === null ? null : (
                    <>
                      {": "}
                      <PlainText>{reason}</PlainText>
                    </>
                  )}
                </span>
              </li>
            ))}
          </ul>
        )}
      </div>
    </Section>
  );
}
