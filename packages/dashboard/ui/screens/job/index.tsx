import { address, ApiError, type JobResponse } from "../../api.ts";
import { Audit } from "../../components/audit.tsx";
import { CopyButton } from "../../components/copy-button.tsx";
import { EmptyState } from "../../components/empty-state.tsx";
import { JsonView } from "../../components/json-view.tsx";
import { GoTo } from "../../components/link.tsx";
import { Banner, Failed, Page, Section, Skeleton } from "../../components/page.tsx";
import { PlainText, reveal } from "../../components/plain-text.tsx";
import { StateMark } from "../../components/state-mark.tsx";
import { useJob } from "../../queries.ts";
import type { Screen } from "../../screen.ts";
import { usePathPart } from "../../url.ts";
import { AttemptChart } from "./attempt-chart.tsx";
import { Facts } from "./facts.tsx";
import { JobFlow } from "./flow.tsx";
import { JobActions } from "./job-actions.tsx";
import { Steps } from "./steps.tsx";
import { Timeline } from "./timeline.tsx";
import { WhyBox } from "./why-box.tsx";
import "./job.css";

function Job() {
  const id = usePathPart("id");
  const { data, error, refetch } = useJob(id);
  const above = <GoTo path="/jobs">Jobs</GoTo>;

  if (data !== undefined) return <Shown key={data.job.id} response={data} stale={error} />;
  if (error instanceof ApiError && (error.status === 404 || error.status === 400)) {
    return (
      <Page title="No such job" above={above}>
        <EmptyState title="There is no job with this id">
          <span className="mono break">
            <PlainText>{id}</PlainText>
          </span>
          <br />
          It may never have been committed, or it ended long ago and was pruned.
        </EmptyState>
      </Page>
    );
  }
  return (
    <Page title="Job" above={above}>
      {error === null ? <Skeleton lines={8} /> : <Failed error={error} again={() => void refetch()} />}
    </Page>
  );
}

type DataName = "payload" | "result";
/** `cut`: fields that were too large to send. `preview` has their start. */
type Body = JobResponse & {
  readonly cut?: readonly DataName[];
  readonly preview?: Readonly<Partial<Record<DataName, unknown>>>;
};

function Shown({ response, stale }: { response: Body; stale: Error | null }) {
  const { job, hidden = false, cut = [], preview = {} } = response;
  const data = (name: DataName) =>
    cut.includes(name)
      ? {
          value: preview[name] ?? job[name],
          whole: address(`jobs/${encodeURIComponent(job.id)}`, { download: name }),
        }
      : { value: job[name] };
  return (
    <Page
      title={reveal(job.kind)}
      above={<GoTo path="/jobs">Jobs</GoTo>}
      note={
        <span className="job-note">
          <StateMark state={job.state} />
          {job.parkReason === null ? null : <PlainText>{job.parkReason}</PlainText>}
          {job.reason === null ? null : <PlainText>{job.reason}</PlainText>}
          <span className="job-id">
            <span className="mono">{job.id}</span>
            <CopyButton text={job.id} label="Copy the id" />
          </span>
        </span>
      }
      actions={
        <JobActions
          id={job.id}
          state={job.state}
          priority={job.priority}
          cancelRequested={job.cancelRequested}
        />
      }
    >
      {stale === null ? null : <Failed error={stale} />}
      {job.cancelRequested && job.state === "running" ? (
        <Banner tone="soon" title="Cancel requested">
          It ends when its handler heeds the signal, or with its attempt.
        </Banner>
      ) : null}
      <div className="job-top">
        <WhyBox why={response.why} state={job.state} />
        <Facts response={response} />
      </div>
      <Section title="Attempts">
        <div className="card card-padded">
          <AttemptChart response={response} />
        </div>
      </Section>
      <JobFlow response={response} />
      <Steps response={response} />
      <div className="job-columns">
        <Section title="Timeline">
          <div className="card">
            <Timeline response={response} />
          </div>
        </Section>
        <div className="job-values">
          <Value title="Payload" {...data("payload")} hidden={hidden} />
          {job.state === "succeeded" || job.result !== null ? (
            <Value title="Result" {...data("result")} hidden={hidden} />
          ) : null}
          {Object.keys(job.meta).length === 0 ? null : <Value title="Meta" value={job.meta} />}
          <Audit entries={response.audit} none="No user has acted on this job." />
        </div>
      </div>
    </Page>
  );
}

function Value({
  title,
  value,
  hidden = false,
  whole,
}: {
  title: string;
  value: unknown;
  hidden?: boolean;
  /** The download link, if only the start is shown. */
  whole?: string;
}) {
  return (
    <Section
      title={title}
      aside={
        whole === undefined ? undefined : (
          <>
            Preview: too large to show whole.{" "}
            <a href={whole} download>
              Download the {title.toLowerCase()}
            </a>
          </>
        )
      }
    >
      <div className="card card-padded">
        {hidden ? (
          <p className="muted">Hidden: your role may not see payloads.</p>
        ) : (
          <JsonView value={value} label={`the ${title.toLowerCase()}`} />
        )}
      </div>
    </Section>
  );
}

export const screen: Screen = { path: "/jobs/$id", title: "Job", component: Job };
