import { useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import type { BulkAction } from "stint/inspect";
import { api, ApiError } from "../../api.ts";
import { Button } from "../../components/button.tsx";
import { Dialog, Field, TypedConfirmation } from "../../components/dialog.tsx";
import { Banner } from "../../components/page.tsx";
import { number, plural } from "../../format.ts";
import { explain, useMe } from "../../queries.ts";
import type { Action } from "./actions.ts";
import "./operations.css";

const act: Record<BulkAction, (id: string, reason: string) => Promise<unknown>> = {
  cancel: (id, reason) => api.cancel(id, reason === "" ? undefined : reason),
  "run-now": (id, reason) => api.runNow(id, reason === "" ? undefined : reason),
  replay: (id, reason) => api.replay(id, reason),
};

type Run = { readonly done: number; readonly refused: readonly string[]; readonly over: boolean };

/** Applies an action to one job, or to the selected jobs one after another. */
export function SelectedDialog({
  action,
  ids,
  onClose,
  onDone,
}: {
  action: Action;
  ids: readonly string[];
  onClose: () => void;
  /** Every request was sent, whatever its result. */
  onDone: () => void;
}) {
  const client = useQueryClient();
  const { data: me } = useMe();
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  const [run, setRun] = useState<Run>();
  const stopped = useRef(false);

  const many = ids.length > 1;
  const production = many && me?.environment?.production === true ? me.environment.name : undefined;
  const because =
    action.needsReason && reason.trim() === ""
      ? "Say why, for the people who will ask later."
      : production !== undefined && typed !== production
        ? `Type ${production} to continue.`
        : null;

  const start = async (): Promise<void> => {
    if (because !== null || run !== undefined) return;
    let now: Run = { done: 0, refused: [], over: false };
    setRun(now);
    for (const id of ids) {
      if (stopped.current) break;
      const refusal = await tryOne(() => act[action.name](id, reason.trim()));
      now =
        refusal === null
          ? { ...now, done: now.done + 1 }
          : { ...now, refused: [...now.refused, many ? `${id}: ${refusal}` : refusal] };
      setRun(now);
    }
    await client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== "me" });
    // A single success needs no summary.
    if (!many && now.refused.length === 0) onDone();
    else setRun({ ...now, over: true });
  };

  const close = (): void => {
    stopped.current = true;
    if (run?.over === true) onDone();
    else onClose();
  };

  return (
    <Dialog
      title={many ? `${action.verb} ${plural(ids.length, "job")}` : `${action.verb} this job`}
      onClose={close}
      actions={
        run === undefined ? (
          <>
            <Button onClick={close}>Close</Button>
            <Button
              look={action.danger ? "danger" : "primary"}
              because={because}
              onClick={() => void start()}
            >
              {many ? `${action.verb} ${plural(ids.length, "job")}` : action.verb}
            </Button>
          </>
        ) : (
          <Button onClick={close}>{run.over ? "Close" : "Stop here"}</Button>
        )
      }
    >
      <p className="muted">{action.means}</p>
      {run === undefined ? (
        <form
          className="bulk-form"
          onSubmit={(event) => {
            event.preventDefault();
            void start();
          }}
        >
          <Field
            label={action.needsReason ? "Reason" : "Reason (may stay empty)"}
            hint="Recorded in the audit log under your name."
            value={reason}
            onChange={setReason}
            autoFocus
          />
          {production === undefined ? null : (
            <TypedConfirmation word={production} value={typed} onChange={setTyped} />
          )}
          <button type="submit" hidden />
        </form>
      ) : (
        <p role="status">
          <strong>{number(run.done)}</strong> {action.done} of {number(ids.length)}
          {run.over ? "." : " …"}
        </p>
      )}
      {run !== undefined && run.refused.length > 0 ? (
        <Banner tone="soon" title={many ? `${plural(run.refused.length, "job")} could not be` : "Not done"}>
          <ul className="bulk-refused">
            {run.refused.slice(0, 20).map((text) => (
              <li key={text}>{text}</li>
            ))}
          </ul>
        </Banner>
      ) : null}
    </Dialog>
  );
}

/** The server's refusal, or null. After a 429 it waits and retries. */
async function tryOne(once: () => Promise<unknown>): Promise<string | null> {
  for (let tries = 1; ; tries++) {
    try {
      await once();
      return null;
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 429) || tries === 5) return explain(error).message;
      await new Promise((resolve) => setTimeout(resolve, 1000 * tries));
    }
  }
}
