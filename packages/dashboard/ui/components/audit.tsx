import type { ReactNode } from "react";
import { Age } from "./age.tsx";
import { Section } from "./page.tsx";
import { PlainText } from "./plain-text.tsx";

type Entry = {
  readonly at: string;
  readonly actor: string;
  readonly action: string;
  readonly reason: string | null;
  /** On a screen of many things: which one, and what of it was changed. */
  readonly subject?: string;
  readonly values?: ReactNode;
};

/** What people did to the things that a screen shows. `none`: the text if there is nothing. */
export function Audit({
  entries,
  none,
  title = "Audit",
  aside,
}: {
  readonly entries: readonly Entry[];
  readonly none: string;
  readonly title?: string;
  readonly aside?: string;
}) {
  return (
    <Section title={title} aside={aside}>
      <div className="card">
        {entries.length === 0 ? (
          <p className="muted card-padded">{none}</p>
        ) : (
          <ul className="audit">
            {entries.map(({ at, actor, action, reason, subject, values }) => (
              <li key={`${at} ${actor} ${action} ${subject ?? ""}`}>
                <span className="life-at">
                  <Age at={at} />
                </span>
                <span>
                  <strong>{action}</strong>
                  {subject === undefined ? null : (
                    <>
                      {" "}
                      <PlainText>{subject}</PlainText>
                    </>
                  )}
                  {values} by <PlainText>{actor}</PlainText>
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
