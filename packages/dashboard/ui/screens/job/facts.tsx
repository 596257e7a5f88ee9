import type { ReactNode } from "react";
import type { JobResponse } from "../../api.ts";
import { Age } from "../../components/age.tsx";
import { CopyButton } from "../../components/copy-button.tsx";
import { GoTo } from "../../components/link.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { duration } from "../../format.ts";
import { useMe } from "../../queries.ts";

function Fact({ label, wide = false, children }: { label: string; wide?: boolean; children: ReactNode }) {
  return (
    <div className="fact" data-wide={wide || undefined}>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** A link if `traceUrl` is set. Only a valid trace id becomes a link, because any enqueuer can write it. */
function Trace({ id }: { id: string }) {
  const { data: me } = useMe();
  const url = me?.traceUrl ?? null;
  const shown = <PlainText className="mono">{id}</PlainText>;
  return (
    <>
      {url !== null && /^[0-9a-f]{16,64}$/i.test(id) ? (
        <a href={url.replaceAll("{traceId}", id)} target="_blank" rel="noopener noreferrer">
          {shown}
        </a>
      ) : (
        shown
      )}
      <CopyButton text={id} label="Copy the trace's id" />
    </>
  );
}

/** The fields of a job. Names link to the jobs that share them. */
export function Facts({ response }: { response: JobResponse }) {
  const { job, run, leaseId, traceId } = response;
  return (
    <dl className="facts">
      <Fact label="Queue">
        <GoTo path="/queues/$queue" params={{ queue: job.queue }}>
          <PlainText>{job.queue}</PlainText>
        </GoTo>
      </Fact>
      {job.key === null ? null : (
        <Fact label="Key" wide={job.key.length > 24}>
          <GoTo path="/jobs" search={{ key: job.key }}>
            <PlainText className="mono">{job.key}</PlainText>
          </GoTo>
          <CopyButton text={job.key} label="Copy the key" />
        </Fact>
      )}
      {job.tenant === null ? null : (
        <Fact label="Tenant">
          <GoTo path="/jobs" search={{ tenant: job.tenant }}>
            <PlainText>{job.tenant}</PlainText>
          </GoTo>
        </Fact>
      )}
      {job.tags.length === 0 ? null : (
        <Fact label="Tags">
          <span className="tags">
            {job.tags.map((tag) => (
              <GoTo key={tag} path="/jobs" search={{ tag }} className="tag">
                <PlainText>{tag}</PlainText>
              </GoTo>
            ))}
          </span>
        </Fact>
      )}
      <Fact label="Attempts">
        {job.attempts}
        {job.maxAttempts === null ? null : ` of ${job.maxAttempts}`}
      </Fact>
      {job.crashes > 0 ? <Fact label="Crashes">{job.crashes}</Fact> : null}
      {job.interruptions > 0 ? <Fact label="Interruptions">{job.interruptions}</Fact> : null}
      {job.faults > 0 ? <Fact label="Database faults">{job.faults}</Fact> : null}
      {job.run > 1 ? <Fact label="Run">{job.run}</Fact> : null}
      {job.priority === 0 ? null : <Fact label="Priority">{job.priority}</Fact>}
      <Fact label="Enqueued">
        <Age at={job.createdAt} />
      </Fact>
      {job.finishedAt === null ? (
        <Fact label="Due">
          <Age at={job.runAt} />
        </Fact>
      ) : (
        <Fact label="Ended">
          <Age at={job.finishedAt} />
        </Fact>
      )}
      {job.worker === null ? null : (
        <Fact label="Worker">
          <PlainText className="mono">{job.worker}</PlainText>
        </Fact>
      )}
      {job.leaseUntil === null ? null : (
        <Fact label="Lease ends">
          <Age at={job.leaseUntil} />
          {leaseId === null ? null : <CopyButton text={leaseId} label="Copy the lease's id" />}
        </Fact>
      )}
      <Fact label="Run time for this kind">
        {run.p50 === null ? (
          <span className="muted">not known yet</span>
        ) : (
          <>
            p50 {duration(run.p50)}, p95 {duration(run.p95)}
          </>
        )}
      </Fact>
      {traceId === null ? null : (
        <Fact label="Trace" wide>
          <Trace id={traceId} />
        </Fact>
      )}
    </dl>
  );
}
