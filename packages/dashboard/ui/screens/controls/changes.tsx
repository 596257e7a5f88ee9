import type { ControlsResponse } from "../../api.ts";
import { Audit } from "../../components/audit.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { changeTexts } from "./change-text.ts";

type Change = ControlsResponse["changes"][number];

/** The audit log of all controls. */
export function Changes({ changes }: { readonly changes: readonly Change[] }) {
  return (
    <Audit
      title="Changes"
      aside="The newest 50, with who made them and why"
      none="No queue setting, limit, dependency or pause was ever changed."
      entries={changes.map(({ change, ...entry }) => ({ ...entry, values: <Values change={change} /> }))}
    />
  );
}

/** Each changed value, before and after. Of a pause only its end, if it has one. */
function Values({ change }: { readonly change: Change["change"] }) {
  const changed = Object.entries(change ?? {}).flatMap(([name, { from, to }]) => changeTexts(name, from, to));
  if (changed.length === 0) return null;
  return (
    <span className="muted">
      {" ("}
      <PlainText>{changed.join(", ")}</PlainText>
      {")"}
    </span>
  );
}
