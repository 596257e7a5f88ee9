import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import type { Operation } from "stint/inspect";
import type { JobsFilter, Wire } from "../../api.ts";
import { Age } from "../../components/age.tsx";
import { Button } from "../../components/button.tsx";
import { Dialog, Field, TypedConfirmation } from "../../components/dialog.tsx";
import { GoTo } from "../../components/link.tsx";
import { Failed, Skeleton } from "../../components/page.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { StateMark } from "../../components/state-mark.tsx";
import { useAbort, useBegin, useMe, useOperation, usePreview } from "../../queries.ts";
import type { Action } from "./actions.ts";
import { countedJobs } from "./count.ts";
import { useCountOn } from "./use-count-on.ts";
import { FilterWords } from "./filter-words.tsx";
import { Progress } from "./progress.tsx";

/** Act on all jobs of a filter: preview, reason, progress, abort. */
export function BulkDialog({
  action,
  filter,
  onClose,
}: {
  action: Action;
  /** The filter when the dialog opened. Later changes of the list do not affect it. */
  filter: JobsFilter;
  onClose: () => void;
}) {
  const [begun, setBegun] = useState<Wire<Operation>>();
  return begun === undefined ? (
    <Preview action={action} filter={filter} onClose={onClose} onBegun={setBegun} />
  ) : (
    <Watch action={action} begun={begun} onClose={onClose} />
  );
}

function Preview({
  action,
  filter,
  onClose,
  onBegun,
}: {
  action: Action;
  filter: JobsFilter;
  onClose: () => void;
  onBegun: (operation: Wire<Operation>) => void;
}) {
  const { data: me } = useMe();
  const preview = usePreview();
  const begin = useBegin();
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");

  const load = preview.mutate;
  useEffect(() => load({ action: action.name, filter }), [load, action, filter]);

  const production = me?.environment?.production === true ? me.environment.name : undefined;
  const matched = useCountOn(preview.data?.matched, action, filter);
  const because =
    matched === undefined
      ? "Wait for the preview."
      : matched.count === 0 && !matched.capped
        ? "No job matches."
        : reason.trim() === ""
          ? "Enter a reason: it is recorded in the audit log of every job."
          : production !== undefined && typed !== production
            ? `Type ${production} to continue.`
            : null;

  const submit = (): void => {
    if (because !== null || begin.isPending || matched === undefined || preview.data === undefined) return;
    const { count, capped } = matched;
    begin.mutate(
      {
        action: action.name,
        filter,
        reason: reason.trim(),
        preview: { matched: { count, capped }, asOf: preview.data.asOf },
        ...(production === undefined ? {} : { confirm: typed }),
      },
      { onSuccess: onBegun },
    );
  };

  return (
    <Dialog
      wide
      title={`${action.verb} all matching jobs`}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button
            look={action.danger ? "danger" : "primary"}
            because={because}
            disabled={begin.isPending}
            onClick={submit}
          >
            {matched === undefined ? action.verb : `${action.verb} ${countedJobs(matched)}`}
          </Button>
        </>
      }
    >
      <p className="muted">{action.means}</p>
      <FilterWords filter={filter} />
      {preview.isError ? (
        <Failed error={preview.error} again={() => load({ action: action.name, filter })} />
      ) : null}
      {preview.data === undefined ? (
        preview.isError ? null : (
          <Skeleton lines={4} />
        )
      ) : (
        <div>
          <p className="bulk-count" role="status">
            {countedJobs(matched ?? preview.data.matched)}
            {matched?.next === undefined ? null : <span className="muted"> so far, still counting …</span>}
          </p>
          <p className="muted">
            As of <Age at={preview.data.asOf} />. Jobs that match later are not touched.
          </p>
          {preview.data.sample.length > 0 ? (
            <>
              <p className="muted">Among them:</p>
              <ul className="bulk-sample">
                {preview.data.sample.slice(0, 5).map((job) => (
                  <li key={job.id}>
                    <StateMark state={job.state} />
                    <PlainText className="bulk-kind">{job.kind}</PlainText>
                    <PlainText className="mono muted">{job.key ?? job.id}</PlainText>
                  </li>
                ))}
              </ul>
            </>
          ) : null}
        </div>
      )}
      <form
        className="bulk-form"
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <Field
          label="Reason"
          hint="Recorded in the audit log of every job, under your name."
          value={reason}
          onChange={setReason}
          autoFocus
        />
        {production === undefined ? null : (
          <TypedConfirmation word={production} value={typed} onChange={setTyped} />
        )}
        {/* Without a submit button, Enter in a form with two fields does nothing. */}
        <button type="submit" hidden />
      </form>
      {begin.isError ? <Failed error={begin.error} /> : null}
    </Dialog>
  );
}

const endWords: Record<Exclude<Operation["state"], "running">, string> = {
  finished: "Finished.",
  aborted: "Aborted. What was done stays done.",
  abandoned: "The process that ran it has ended. What was done stays done; start it again for the rest.",
};

function Watch({ action, begun, onClose }: { action: Action; begun: Wire<Operation>; onClose: () => void }) {
  const { data = begun, error, refetch } = useOperation(begun.id);
  const abort = useAbort();
  const running = data.state === "running";

  const client = useQueryClient();

  // The progress is polled even while live updates are paused; the list behind the dialog is refreshed at the end.
  useEffect(() => {
    if (!running) {
      void client.invalidateQueries({
        predicate: ({ queryKey }) => ["jobs", "count", "dead-groups"].includes(String(queryKey[0])),
      });
      return undefined;
    }
    const timer = setInterval(() => void refetch(), 1_000);
    return () => clearInterval(timer);
  }, [running, refetch, client]);
  return (
    <Dialog
      wide
      title={`${action.verb} all matching jobs`}
      onClose={onClose}
      actions={
        <>
          {running ? (
            <Button look="danger" disabled={abort.isPending} onClick={() => abort.mutate(data.id)}>
              Abort
            </Button>
          ) : null}
          <Button look={running ? "plain" : "primary"} onClick={onClose}>
            Close
          </Button>
        </>
      }
    >
      <FilterWords filter={data.filter} />
      <Progress operation={data} />
      <p role="status">
        {data.state === "running" ? (
          <>
            It continues after you close this. Find it under <GoTo path="/operations">Operations</GoTo>.
          </>
        ) : (
          endWords[data.state]
        )}
      </p>
      {error === null ? null : <Failed error={error} />}
      {abort.isError ? <Failed error={abort.error} /> : null}
    </Dialog>
  );
}
