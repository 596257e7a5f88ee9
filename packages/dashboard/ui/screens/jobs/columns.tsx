import type { JobRow } from "stint/inspect";
import type { Wire } from "../../api.ts";
import { Age } from "../../components/age.tsx";
import { GoTo } from "../../components/link.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { StateMark } from "../../components/state-mark.tsx";
import type { Column } from "../../components/table.tsx";
import "./jobs.css";

export type Row = Wire<JobRow>;
type JobColumn = Column<Row>;

const state: JobColumn = {
  id: "state",
  header: "State",
  cell: (job) => <StateMark state={job.state} />,
  card: "corner",
};

const kind: JobColumn = {
  id: "kind",
  header: "Kind",
  cell: (job) => (
    <GoTo path="/jobs/$id" params={{ id: job.id }} className="job-link">
      <PlainText className="job-kind" whole>
        {job.kind}
      </PlainText>
    </GoTo>
  ),
  card: "title",
};

const key: JobColumn = {
  id: "key",
  header: "Key or id",
  cell: (job) =>
    job.key === null ? (
      <span className="mono muted" title={job.id}>
        …{job.id.slice(-12)}
      </span>
    ) : (
      <PlainText className="job-key mono" whole>
        {job.key}
      </PlainText>
    ),
  card: "plain",
};

const queue: JobColumn = {
  id: "queue",
  header: "Queue",
  cell: (job) => <PlainText className="job-queue">{job.queue}</PlainText>,
  card: "none",
  leaves: "next",
};

const tenant: JobColumn = {
  id: "tenant",
  header: "Tenant",
  cell: (job) => (job.tenant === null ? null : <PlainText className="job-queue">{job.tenant}</PlainText>),
  card: "none",
  leaves: "first",
};

const attempts: JobColumn = {
  id: "attempts",
  header: "Attempts",
  cell: (job) => (
    <>
      {job.attempts}
      {job.maxAttempts === null ? null : <span className="muted"> / {job.maxAttempts}</span>}
    </>
  ),
  align: "end",
};

const enqueued: JobColumn = {
  id: "enqueued",
  header: "Enqueued",
  cell: (job) => <Age at={job.createdAt} />,
  align: "end",
  card: "none",
  leaves: "first",
};

/** The next relevant time, or the last. */
const time: JobColumn = {
  id: "time",
  header: "Due or ended",
  cell: (job) => <Age at={job.finishedAt ?? job.claimedAt ?? job.runAt} />,
  align: "end",
};

const died: JobColumn = {
  id: "died",
  header: "Died",
  cell: (job) => <Age at={job.finishedAt ?? job.runAt} />,
  align: "end",
  card: "corner",
};

const error: JobColumn = {
  id: "error",
  header: "Reason, last error",
  cell: (job) => <Why job={job} />,
  grow: true,
  card: "plain",
};

function Why({ job }: { job: Row }) {
  if (job.parkReason !== null && job.state === "parked")
    return <PlainText>{[job.parkReason, job.reason].filter((part) => part !== null).join(": ")}</PlainText>;
  if (job.error === null) return job.reason === null ? null : <PlainText>{job.reason}</PlainText>;
  return (
    <>
      <PlainText className="job-error">{job.error.name}</PlainText>{" "}
      <PlainText className="muted" whole>
        {job.error.message}
      </PlainText>
    </>
  );
}

const withTenant: readonly JobColumn[] = [state, kind, key, queue, tenant, attempts, enqueued, time, error];
const withoutTenant = withTenant.filter((column) => column !== tenant);

/** Most installations have no tenants; an empty column would take room from the errors. */
export function jobColumns(jobs: readonly Row[] = []): readonly JobColumn[] {
  return jobs.some((job) => job.tenant !== null) ? withTenant : withoutTenant;
}
export const deadColumns: readonly JobColumn[] = [kind, error, key, queue, attempts, died];
