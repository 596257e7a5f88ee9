import type { SlowJob } from "stint/inspect";
import type { Wire } from "../../api.ts";
import { EmptyState } from "../../components/empty-state.tsx";
import { GoTo } from "../../components/link.tsx";
import { Failed, Page } from "../../components/page.tsx";
import { Rows, type Column } from "../../components/rows.tsx";
import { duration, number } from "../../format.ts";
import { useSlow } from "../../queries.ts";
import type { Screen } from "../../screen.ts";
import "./slow.css";

export const screen: Screen = {
  path: "/slow",
  title: "Slow",
  icon: "M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13ZM8 4v4.2l2.8 1.8",
  key: "s",
  component: Slow,
};

type Job = Wire<SlowJob>;

const reasons: Record<Job["because"], string> = {
  "beyond-normal": "slower than usual",
  "near-lease": "near the end of its lease",
  "near-timeout": "near its timeout",
  stalled: "stalled",
};

const columns: readonly Column<Job>[] = [
  {
    title: "Job",
    head: true,
    sort: ({ kind }) => kind,
    cell: ({ id, kind }) => (
      <>
        <GoTo path="/jobs/$id" params={{ id }} className="name" title={kind}>
          {kind}
        </GoTo>
        <div className="second mono name" title={id}>
          {id}
        </div>
      </>
    ),
  },
  {
    title: "Running for",
    number: true,
    sort: ({ runningMs }) => runningMs,
    cell: ({ runningMs }) => <span className="slow-age">{duration(runningMs)}</span>,
  },
  {
    title: "p95 for kind",
    number: true,
    sort: ({ p95Ms }) => p95Ms,
    cell: ({ p95Ms, runningMs }) => (
      <>
        {p95Ms === null ? <span className="muted">not known yet</span> : duration(p95Ms)}
        {p95Ms !== null && p95Ms > 0 && <div className="second">{times(runningMs / p95Ms)} as long</div>}
      </>
    ),
  },
  {
    title: "Reason",
    wide: true,
    sort: ({ because }) => reasons[because],
    cell: ({ because, text }) => (
      <>
        <span className={because === "beyond-normal" ? "" : "warn"}>{reasons[because]}</span>
        <div className="slow-text">{text}</div>
      </>
    ),
  },
  {
    title: "Attempt",
    number: true,
    leaves: "first",
    sort: ({ attempt }) => attempt,
    cell: ({ attempt }) => number(attempt),
  },
  {
    title: "Queue",
    sort: ({ queue }) => queue,
    cell: ({ queue }) => (
      <GoTo path="/queues/$queue" params={{ queue }} className="name" title={queue}>
        {queue}
      </GoTo>
    ),
  },
  {
    title: "Worker",
    leaves: "next",
    sort: ({ worker }) => worker,
    cell: ({ worker }) => (
      <span className="mono name" title={worker ?? undefined}>
        {worker ?? "–"}
      </span>
    ),
  },
];

const times = (factor: number) => `${factor < 9.95 ? factor.toFixed(1) : number(Math.round(factor))} times`;

function Slow() {
  const { data, error, refetch } = useSlow();
  return (
    <Page
      title="Slow"
      note="Running jobs that are slower than usual for their kind, or near the end of their lease or timeout"
    >
      {error !== null && data === undefined && <Failed error={error} again={() => void refetch()} />}
      {data?.length === 0 ? (
        <EmptyState title="Nothing is slow">
          No running job is slower than usual. A job is listed when it runs for more than three times the p95
          of its kind, or has used most of its lease or timeout.
        </EmptyState>
      ) : (
        (data !== undefined || error === null) && (
          <Rows
            label="Slow jobs"
            columns={columns}
            items={data}
            id={({ id }) => id}
            open={({ id }) => ({ path: "/jobs/$id", params: { id } })}
          />
        )
      )}
    </Page>
  );
}
