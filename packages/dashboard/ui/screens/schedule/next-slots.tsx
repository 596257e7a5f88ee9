import type { LocalSlots } from "stint/inspect";
import type { Wire } from "../../api.ts";
import { Age } from "../../components/age.tsx";
import { explain } from "../../queries.ts";

/** Slots as the clocks of a zone show them, and how soon they are. */
export function NextSlots({
  label,
  slots,
  error,
}: {
  label: string;
  slots: Wire<LocalSlots> | undefined;
  error: unknown;
}) {
  if (error !== null) {
    return (
      <p className="warn" role="alert">
        {explain(error).message}
      </p>
    );
  }
  if (slots === undefined) return null;
  if (slots.slots.length === 0) return <p className="muted">It has no slot any more.</p>;
  return (
    <ol className="slot-list next-slots" aria-label={`${label}, ${slots.zone}`}>
      {slots.slots.map(({ at, local }) => (
        <li key={at}>
          <span className="mono">{local}</span>
          <span className="muted mono">{at.replace(".000Z", "Z")}</span>
          <span className="muted">
            <Age at={at} />
          </span>
        </li>
      ))}
    </ol>
  );
}
