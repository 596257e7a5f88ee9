import type { Slot } from "stint";
import { useState } from "react";
import type { Wire } from "../../api.ts";
import { Age, exact } from "../../components/age.tsx";
import { Button } from "../../components/button.tsx";
import { GoTo } from "../../components/link.tsx";
import { Failed, Section } from "../../components/page.tsx";
import { OutcomeShape, outcomeWords } from "../../components/slot-timeline.tsx";
import { plural } from "../../format.ts";
import { useOlderSlots } from "../../queries.ts";

/** As many as the server sends with the schedule, and with each older page. */
const page = 50;

/** The ledger: what became of each slot. */
export function SlotRows({ name, slots: newest }: { name: string; slots: readonly Wire<Slot>[] }) {
  const [before, setBefore] = useState<string | null>(null);
  const older = useOlderSlots(name, before);
  const slots = before === null ? newest : (older.data?.slots ?? []);
  const last = slots.at(-1);
  return (
    <Section
      title="Slots"
      aside={
        before === null ? (
          "Newest first"
        ) : (
          <Button small onClick={() => setBefore(null)}>
            Newest
          </Button>
        )
      }
    >
      {older.isError ? <Failed error={older.error} again={() => void older.refetch()} /> : null}
      <div className="card">
        {slots.length === 0 && !older.isFetching ? (
          <p className="muted card-padded">
            {before === null ? "No slot has come yet." : "There are no older slots."}
          </p>
        ) : (
          <ul className="slot-list" aria-label="Slots">
            {slots.map(({ slot, outcome, slots: count, lastSlot, jobId }) => (
              <li key={slot}>
                <span className="slot-outcome">
                  <OutcomeShape outcome={outcome} /> {outcomeWords[outcome]}
                </span>
                <time dateTime={slot} className="tabular" title={exact(slot)}>
                  {exact(slot).replace(/\.\d+/, "")}
                </time>
                <span className="muted">
                  <Age at={slot} />
                </span>
                {count === 1 || lastSlot === null ? null : (
                  <span>
                    {plural(count, "slot")} until {exact(lastSlot).replace(/\.\d+/, "")}
                  </span>
                )}
                {jobId === null ? null : (
                  <GoTo path="/jobs/$id" params={{ id: jobId }}>
                    {outcome === "skipped" ? "the job that had not ended" : "its job"}
                  </GoTo>
                )}
              </li>
            ))}
          </ul>
        )}
      </div>
      {last === undefined || slots.length < page ? null : (
        <p>
          <Button small onClick={() => setBefore(last.slot)}>
            Older slots
          </Button>
        </p>
      )}
    </Section>
  );
}
