import { useState } from "react";
import { api } from "../../api.ts";
import { ActionDialog } from "../../components/action-dialog.tsx";
import { Field } from "../../components/dialog.tsx";
import { showToast } from "../../components/toast.tsx";

/** Changes a limit, or sets a new one if it has no name yet. */
export function LimitDialog({
  limit,
  onClose,
}: {
  readonly limit: { readonly name?: string; readonly max?: number; readonly declaredMax?: number | null };
  readonly onClose: () => void;
}) {
  const [name, setName] = useState(limit.name ?? "");
  const [max, setMax] = useState(limit.max === undefined ? "" : String(limit.max));
  const { declaredMax = null } = limit;
  const value = max.trim() === "" ? null : Number(max);
  const action = {
    title: limit.name === undefined ? "Set a limit" : `Change ${limit.name}`,
    verb: "Set",
    means: "It applies to jobs that start from now on. Running jobs continue, also above a lower limit.",
    needsReason: true,
    confirms: true,
    incomplete:
      name.trim() === ""
        ? "Name the limit."
        : value !== null && !Number.isInteger(value)
          ? "Max must be a whole number."
          : null,
    fields: (
      <>
        {limit.name === undefined ? (
          <Field
            label="Limit"
            hint="queue:NAME, kind:NAME, tenant:KIND, tenant:* or key:NAME, or one key of them, such as key:account=42."
            value={name}
            onChange={setName}
            placeholder="kind:charge"
            autoFocus
          />
        ) : null}
        <Field
          label="Max"
          hint={
            declaredMax === null
              ? "Jobs that may run at once. Empty removes the limit."
              : `Jobs that may run at once. Empty returns to the declared ${declaredMax}.`
          }
          value={max}
          onChange={setMax}
          autoFocus={limit.name !== undefined}
        />
      </>
    ),
    act: async (reason: string, confirm: string) => {
      await api.setLimit({ name: name.trim(), max: value, reason, confirm });
      showToast(
        value === null ? `${name.trim()} has its declared value.` : `${name.trim()} is now ${value}.`,
      );
    },
  };
  return <ActionDialog action={action} onClose={onClose} onDone={onClose} />;
}

export function PassDialog({
  orderKey,
  onClose,
}: {
  readonly orderKey: string;
  readonly onClose: () => void;
}) {
  const action = {
    title: `Pass ${orderKey}`,
    verb: "Pass",
    means:
      "Takes the turn from the dead job that blocks this key, so that the jobs behind it run. The dead job stays dead.",
    needsReason: true,
    confirms: true,
    act: async (reason: string, confirm: string) => {
      const { job } = await api.passOrder({ key: orderKey, reason, confirm });
      showToast(job === null ? "No dead job blocks this key." : "The jobs behind it run now.");
    },
  };
  return <ActionDialog action={action} onClose={onClose} onDone={onClose} />;
}
