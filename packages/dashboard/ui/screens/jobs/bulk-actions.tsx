import { useState } from "react";
import type { JobState } from "stint";
import type { JobsFilter } from "../../api.ts";
import { Button } from "../../components/button.tsx";
import { plural } from "../../format.ts";
import { useRights } from "../../queries.ts";
import { whyNot, type Action } from "../operations/actions.ts";
import { BulkDialog } from "../operations/bulk-dialog.tsx";
import { SelectedDialog } from "../operations/selected-dialog.tsx";

/** Buttons for all jobs of the filter. */
export function FilterActions({
  actions,
  filter,
  none,
}: {
  actions: readonly Action[];
  filter: JobsFilter;
  /** Nothing matches. */
  none: boolean;
}) {
  const { operate } = useRights();
  // The filter is copied now: the dialog acts on what it previewed.
  const [open, setOpen] = useState<{ action: Action; filter: JobsFilter }>();
  const states = typeof filter.state === "string" ? [filter.state] : (filter.state ?? []);
  const whole =
    Object.keys(filter).length === 0 ? "Filter the list first: this would act on every job." : null;
  return (
    <>
      <span className="muted">All matching jobs:</span>
      {actions.map((action) => (
        <Button
          key={action.name}
          because={whyNot(action, states, operate) ?? whole ?? (none ? "No job matches." : null)}
          onClick={() => setOpen({ action, filter })}
        >
          {action.verb} …
        </Button>
      ))}
      {open === undefined ? null : <BulkDialog {...open} onClose={() => setOpen(undefined)} />}
    </>
  );
}

/** Appears when rows are selected. */
export function SelectionBar({
  actions,
  rows,
  onClear,
}: {
  actions: readonly Action[];
  rows: readonly { readonly id: string; readonly state: JobState }[];
  onClear: () => void;
}) {
  const { operate } = useRights();
  const [open, setOpen] = useState<{ action: Action; ids: readonly string[] }>();
  if (rows.length === 0 && open === undefined) return null;
  return (
    <div className="selection-bar" role="region" aria-label="Selected jobs">
      <strong role="status">{plural(rows.length, "job")} selected</strong>
      {actions.map((action) => {
        const fit = rows.filter(({ state }) => action.states.includes(state));
        return (
          <Button
            key={action.name}
            small
            look={action.danger ? "danger" : "plain"}
            because={whyNot(
              action,
              rows.map(({ state }) => state),
              operate,
            )}
            onClick={() => setOpen({ action, ids: fit.map(({ id }) => id) })}
          >
            {action.verb}
            {fit.length > 0 && fit.length < rows.length ? ` ${fit.length}` : ""} …
          </Button>
        );
      })}
      <Button small look="quiet" onClick={onClear}>
        Clear
      </Button>
      {open === undefined ? null : (
        <SelectedDialog
          {...open}
          onClose={() => setOpen(undefined)}
          onDone={() => {
            setOpen(undefined);
            onClear();
          }}
        />
      )}
    </div>
  );
}
