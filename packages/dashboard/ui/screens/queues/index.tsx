import type { QueueHealth } from "stint/inspect";
import type { Wire } from "../../api.ts";
import { EmptyState } from "../../components/empty-state.tsx";
import { GoTo } from "../../components/link.tsx";
import { Failed, Page } from "../../components/page.tsx";
import { Rows, type Column } from "../../components/rows.tsx";
import { StandingMark } from "../../components/standing-mark.tsx";
import { duration, number, rate } from "../../format.ts";
import { useHealth } from "../../queries.ts";
import type { Screen } from "../../screen.ts";
import { standingOf } from "../../standing.ts";
import { queueColumn } from "./queue-column.tsx";
import { Shares } from "./shares.tsx";

export const screen: Screen = {
  path: "/queues",
  title: "Queues",
  icon: "M2 13V7h3v6M6.5 13V3h3v10M11 13V9.5h3V13M1 13.5h14",
  key: "q",
  component: Queues,
};

type Queue = Wire<QueueHealth>;

const inState = (
  title: string,
  state: "ready" | "running" | "scheduled" | "retrying" | "parked",
  leaves?: "first" | "next",
): Column<Queue> => ({
  title,
  number: true,
  ...(leaves === undefined ? {} : { leaves }),
  sort: ({ depth }) => depth[state],
  cell: ({ queue, depth }: Queue) =>
    depth[state] === 0 ? (
      <span className="muted">0</span>
    ) : (
      <GoTo path="/jobs" search={{ queue, state }} className="figure">
        {number(depth[state])}
      </GoTo>
    ),
});

const columns: readonly Column<Queue>[] = [
  queueColumn,
  {
    title: "Status",
    sort: (queue) => ["late", "soon", "paused", "ok"].indexOf(standingOf(queue)),
    cell: (queue) => <StandingMark standing={standingOf(queue)} />,
  },
  {
    title: "Oldest ready",
    number: true,
    sort: ({ oldestReadyMs }) => oldestReadyMs,
    cell: ({ oldestReadyMs }) => duration(oldestReadyMs),
  },
  inState("Ready", "ready"),
  inState("Running", "running"),
  inState("Scheduled", "scheduled", "next"),
  inState("Retrying", "retrying"),
  inState("Parked", "parked", "first"),
  {
    title: "Dead",
    number: true,
    sort: ({ depth }) => depth.dead,
    cell: ({ queue, depth }) =>
      depth.dead === 0 ? (
        <span className="muted">0</span>
      ) : (
        <GoTo path="/dead" search={{ queue }} className="figure bad">
          {number(depth.dead)}
        </GoTo>
      ),
  },
  { title: "Ended", number: true, sort: ({ rates }) => rates.ended, cell: ({ rates }) => rate(rates.ended) },
  {
    title: "Queue time p95",
    number: true,
    sort: ({ wait }) => wait.p95,
    leaves: "next",
    cell: ({ wait }) => duration(wait.p95),
  },
  {
    title: "Run time p95",
    number: true,
    sort: ({ run }) => run.p95,
    leaves: "first",
    cell: ({ run }) => duration(run.p95),
  },
  { title: "Serving", number: true, sort: ({ workers }) => workers, cell: ({ workers }) => number(workers) },
];

const byName = { label: "Filter queues", text: ({ queue }: Queue) => queue };

function Queues() {
  const { data, error, refetch } = useHealth();
  const queues =
    data === undefined ? undefined : [...data.queues].sort((a, b) => a.queue.localeCompare(b.queue));
  return (
    <Page title="Queues" note="By name. Open one for its charts and kinds.">
      {error !== null && data === undefined && <Failed error={error} again={() => void refetch()} />}
      {queues?.length === 0 ? (
        <EmptyState title="There is no queue yet">
          A queue appears with its first job. You do not have to create it.
        </EmptyState>
      ) : (
        <>
          <Rows
            label="Queues"
            filter={byName}
            columns={columns}
            items={queues}
            id={({ queue }) => queue}
            open={({ queue }) => ({ path: "/queues/$queue", params: { queue } })}
          />
          <Shares />
        </>
      )}
    </Page>
  );
}
