import { useState } from "react";
import type { JobState } from "stint";
import { Button } from "../../components/button.tsx";
import { showToast } from "../../components/toast.tsx";
import { useRights } from "../../queries.ts";
import { allActions, whyNot, type Action } from "../operations/actions.ts";
import { ChangeDialog } from "./change-dialog.tsx";
import { SelectedDialog } from "../operations/selected-dialog.tsx";

function isWaiting(state: JobState): boolean {
  return ["scheduled", "ready", "retrying", "parked"].includes(state);
}

/** The actions that the job's state allows. */
export function JobActions({
  id,
  state,
  priority,
  cancelRequested,
}: {
  id: string;
  state: JobState;
  priority: number;
  cancelRequested: boolean;
}) {
  const { operate } = useRights();
  const [open, setOpen] = useState<Action>();
  const [changing, setChanging] = useState(false);
  const ids = [id];
  return (
    <>
      {isWaiting(state) ? (
        <Button
          because={operate ? null : "Your role is view only. Ask for the role operate."}
          onClick={() => setChanging(true)}
        >
          Change …
        </Button>
      ) : null}
      {changing ? <ChangeDialog id={id} priority={priority} onClose={() => setChanging(false)} /> : null}
      {allActions
        .filter(({ states }) => states.includes(state))
        .map((action) => (
          <Button
            key={action.name}
            look={action.danger ? "danger" : "plain"}
            because={
              action.name === "cancel" && cancelRequested
                ? "Cancel was requested already; the job ends when its handler returns."
                : whyNot(action, [state], operate)
            }
            onClick={() => setOpen(action)}
          >
            {action.verb} …
          </Button>
        ))}
      {open === undefined ? null : (
        <SelectedDialog
          action={open}
          ids={ids}
          onClose={() => setOpen(undefined)}
          onDone={() => {
            setOpen(undefined);
            showToast(
              open.name === "cancel" && state === "running" ? "Cancel requested." : `Job ${open.done}.`,
            );
          }}
        />
      )}
    </>
  );
}
