import { useState } from "react";
import { api } from "../../api.ts";
import { ActionDialog, type Action } from "../../components/action-dialog.tsx";
import { Button } from "../../components/button.tsx";
import { showToast } from "../../components/toast.tsx";
import { useRights } from "../../queries.ts";
import type { Row } from "./schedule-words.tsx";

type Name = "run" | "pause" | "resume" | "remove";
type Of = Pick<Row, "name" | "state" | "owner">;

const orNone = (reason: string): string | undefined => (reason === "" ? undefined : reason);

const actions: Readonly<Record<Name, (of: Of) => Action>> = {
  run: ({ name }) => ({
    title: `Run ${name} now`,
    verb: "Run now",
    means: "Enqueues its job now, in addition to its slots.",
    act: async (reason) => await api.runSchedule(name, orNone(reason)),
  }),
  pause: ({ name }) => ({
    title: `Pause ${name}`,
    verb: "Pause",
    means: "No slot fires until it is resumed. A deploy does not end the pause.",
    needsReason: true,
    act: async (reason) => await api.pauseSchedule(name, reason),
  }),
  resume: ({ name }) => ({
    title: `Resume ${name}`,
    verb: "Resume",
    means: "Slots fire again, from now on. Slots of the pause are not caught up on.",
    act: async (reason) => await api.resumeSchedule(name, orNone(reason)),
  }),
  remove: ({ name, owner }) => ({
    title: `Remove ${name}`,
    verb: "Remove",
    means:
      owner === null
        ? "No further slot fires. Jobs that exist stay. The rule and the payload cannot be restored."
        : `The code of ${owner} declares it. Remove it there, or pause it.`,
    danger: true,
    needsReason: true,
    act: async (reason) => await api.removeSchedule(name, reason),
  }),
};

const done: Readonly<Record<Name, string>> = {
  run: "Job enqueued.",
  pause: "Schedule paused.",
  resume: "Schedule resumed.",
  remove: "Schedule removed.",
};

/** What can be done to a schedule. `few`: in a list, without removing. */
export function ScheduleActions({
  schedule,
  few = false,
  onRemoved,
}: {
  schedule: Of;
  few?: boolean;
  /** Leaves the page of the schedule before it is asked for again. */
  onRemoved?: () => Promise<void>;
}) {
  const rights = useRights();
  const [open, setOpen] = useState<Name>();
  const viewOnly = rights.operate ? null : "Your role is view only. Ask for the role operate.";
  const notAdmin = rights.admin ? null : "Removing a schedule needs the role admin.";
  const toggle: Name = schedule.state === "paused" ? "resume" : "pause";
  const actionWith = (name: Name): Action => {
    const action = actions[name](schedule);
    return {
      ...action,
      act: async (reason, confirm) => {
        await action.act(reason, confirm);
        showToast(done[name]);
        if (name === "remove") await onRemoved?.();
      },
    };
  };
  const button = (name: Name, text: string, because: string | null) => (
    <Button
      small={few}
      look={name === "remove" ? "danger" : "plain"}
      because={because}
      onClick={() => setOpen(name)}
      aria-label={few ? `${text} ${schedule.name}` : undefined}
    >
      {few ? text : `${text} …`}
    </Button>
  );
  return (
    <>
      <span className="row-actions">
        {button("run", "Run now", viewOnly)}
        {button(toggle, toggle === "pause" ? "Pause" : "Resume", viewOnly)}
        {few
          ? null
          : button(
              "remove",
              "Remove",
              schedule.owner === null
                ? notAdmin
                : `The code of ${schedule.owner} declares it. Remove it there.`,
            )}
      </span>
      {open === undefined ? null : (
        <ActionDialog
          action={actionWith(open)}
          onClose={() => setOpen(undefined)}
          onDone={() => setOpen(undefined)}
        />
      )}
    </>
  );
}
