import { useState } from "react";
import { api } from "../../api.ts";
import { ActionDialog } from "../../components/action-dialog.tsx";
import { Field } from "../../components/dialog.tsx";
import { showToast } from "../../components/toast.tsx";

/** Changes when and how urgently a waiting job runs. */
export function ChangeDialog({
  id,
  priority: before,
  onClose,
}: {
  readonly id: string;
  readonly priority: number;
  readonly onClose: () => void;
}) {
  const [priority, setPriority] = useState(String(before));
  const [delay, setDelay] = useState("");
  const isMoved = priority.trim() !== String(before);
  const incomplete = !/^-?\d+$/.test(priority.trim())
    ? "Priority must be a whole number."
    : !isMoved && delay.trim() === ""
      ? "Change the priority or the run time first."
      : null;
  const action = {
    title: "Change this job",
    verb: "Change",
    means: "Changes a job that waits. Its payload stays; code changes it by stint.change(job, { payload }).",
    needsReason: true,
    incomplete,
    fields: (
      <div className="field-row">
        <Field
          label="Priority"
          hint="Smaller runs first."
          value={priority}
          onChange={setPriority}
          autoFocus
        />
        <Field
          label="Run after (may stay empty)"
          hint="From now, such as 30m or 2h."
          value={delay}
          onChange={setDelay}
        />
      </div>
    ),
    act: async (reason: string) => {
      await api.changeJob(id, {
        ...(isMoved ? { priority: Number(priority) } : {}),
        ...(delay.trim() === "" ? {} : { delay: delay.trim() }),
        reason,
      });
      showToast("Job changed.");
    },
  };
  return <ActionDialog action={action} onClose={onClose} onDone={onClose} />;
}
