import { useState } from "react";
import { api } from "../api.ts";
import { useHealth, useKinds } from "../queries.ts";
import { ActionDialog } from "./action-dialog.tsx";
import { Field } from "./dialog.tsx";
import { SelectField } from "./fields.tsx";
import { showToast } from "./toast.tsx";

export const pauseScopes = {
  queue: "queue",
  kind: "kind",
  tenant: "tenant",
  key: "key",
  dependency: "dependency",
} as const;
export type PauseScope = keyof typeof pauseScopes;

/** Asks what to pause, for how long and why. `target`: what to pause is known. `dependencies`: their names, as suggestions. */
export function PauseDialog({
  target,
  dependencies = [],
  onClose,
}: {
  readonly target?: { readonly scope: PauseScope; readonly name: string };
  readonly dependencies?: readonly string[] | undefined;
  readonly onClose: () => void;
}) {
  const [scope, setScope] = useState<PauseScope>(target?.scope ?? "queue");
  const [name, setName] = useState(target?.name ?? "");
  const [length, setLength] = useState("");
  const suggestions = useNames(scope, dependencies);
  const what = `${scope} ${name.trim()}`;
  const action = {
    title: target === undefined ? "Pause" : `Pause ${what}`,
    verb: "Pause",
    means: "No further job of it starts. Enqueueing continues, running jobs finish, and no attempt is spent.",
    needsReason: true,
    confirms: true,
    incomplete: name.trim() === "" ? `Name the ${scope} to pause.` : null,
    fields: (
      <>
        {target === undefined ? (
          <div className="field-row">
            <SelectField label="Scope" value={scope} options={pauseScopes} onChange={setScope} />
            <Field
              label="Name"
              value={name}
              onChange={setName}
              placeholder={
                scope === "queue" || scope === "kind" ? "a name, or a pattern such as tenant-*" : ""
              }
              suggestions={suggestions}
            />
          </div>
        ) : null}
        <Field
          label="For (may stay empty)"
          hint="A length of time, such as 30m or 2h. Empty: until it is resumed."
          value={length}
          onChange={setLength}
          placeholder="2h"
          autoFocus
        />
      </>
    ),
    act: async (reason: string, confirm: string) => {
      await api.pause({ scope, name: name.trim(), for: length.trim(), reason, confirm });
      showToast(`Paused ${what}.`);
    },
  };
  return <ActionDialog action={action} onClose={onClose} onDone={onClose} />;
}

export function ResumeDialog({
  target: { scope, name },
  onClose,
}: {
  readonly target: { readonly scope: string; readonly name: string };
  readonly onClose: () => void;
}) {
  const action = {
    title: `Resume ${scope} ${name}`,
    verb: "Resume",
    means: "Its jobs start again at once.",
    needsReason: true,
    confirms: true,
    act: async (reason: string, confirm: string) => {
      const { resumed } = await api.resume({ scope, name, reason, confirm });
      showToast(resumed ? `Resumed ${scope} ${name}.` : `${scope} ${name} was not paused.`);
    },
  };
  return <ActionDialog action={action} onClose={onClose} onDone={onClose} />;
}

/** Known names. Tenants and keys are not listed: there may be any number of them. */
function useNames(scope: PauseScope, dependencies: readonly string[]): readonly string[] {
  const { data: health } = useHealth();
  const { data: kinds } = useKinds();
  if (scope === "queue") return health?.queues.map(({ queue }) => queue) ?? [];
  if (scope === "dependency") return dependencies;
  return scope === "kind" ? [...new Set(kinds?.map(({ kind }) => kind))] : [];
}
