import type { ControlsResponse } from "../../api.ts";
import { Age } from "../../components/age.tsx";
import { Section } from "../../components/page.tsx";
import { PlainText } from "../../components/plain-text.tsx";

type Change = ControlsResponse["changes"][number];

/** The audit log of all controls. */
export function Changes({ changes }: { readonly changes: readonly Change[] }) {
  return (
    <Section title="Changes" aside="The newest 50, with who made them and why">
      <div className="card">
        {changes.length === 0 ? (
          <p className="muted card-padded">No queue setting, limit or pause was ever changed.</p>
        ) : (
          <ul className="audit">
            {changes.map(({ at, actor, action, subject, reason, change }) => (
              <li key={`${at} ${actor} ${action} ${subject}`}>
                <span className="life-at">
                  <Age at={at} />
                </span>
                <span>
                  <strong>{action}</strong> <PlainText>{subject}</PlainText>
                  <Values change={change} /> by <PlainText>{actor}</PlainText>
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

/** Each changed value, before and after. Of a pause only its end, if it has one. */
function Values({ change }: { readonly change: Change["change"] }) {
  const changed = Object.entries(change ?? {}).filter(([, { from, to }]) => from !== null || to !== null);
  if (changed.length === 0) return null;
  return (
    <span className="muted">
      {" ("}
      <PlainText>
        {changed.map(([name, { from, to }]) => `${name} ${valueText(from)} → ${valueText(to)}`).join(", ")}
      </PlainText>
      {")"}
    </span>
  );
}

function valueText(value: unknown): string {
  if (value === null || value === undefined) return "none";
  return typeof value === "string" ? value : JSON.stringify(value);
}
