import type { QueuePaused } from "stint/inspect";
import { useState } from "react";
import type { Wire } from "../api.ts";
import { useRights } from "../queries.ts";
import { Button } from "./button.tsx";
import { PauseDialog, ResumeDialog } from "./pause-dialog.tsx";

/** Pauses a queue, or resumes the name or pattern by which it is paused. */
export function PauseButton({
  queue,
  paused,
}: {
  readonly queue: string;
  readonly paused: Wire<QueuePaused> | null;
}) {
  const rights = useRights();
  const [open, setOpen] = useState<"pause" | "resume">();
  const action = paused === null ? "Pause" : "Resume";
  const close = (): void => setOpen(undefined);
  return (
    <>
      <Button
        because={rights.operate ? null : "Your role is view only. Ask for the role operate."}
        onClick={() => setOpen(paused === null ? "pause" : "resume")}
      >
        {action} …
      </Button>
      {open === "pause" ? <PauseDialog target={{ scope: "queue", name: queue }} onClose={close} /> : null}
      {open === "resume" && paused !== null ? (
        <ResumeDialog target={{ scope: "queue", name: paused.setFor }} onClose={close} />
      ) : null}
    </>
  );
}
