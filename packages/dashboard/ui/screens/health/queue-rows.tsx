import type { QueueHealth } from "stint/inspect";
import type { Wire } from "../../api.ts";
import { useMemo } from "react";
import { Bar } from "../../components/bar.tsx";
import { GoTo } from "../../components/link.tsx";
import { Rows, type Column } from "../../components/rows.tsx";
import { Sparkline } from "../../components/sparkline.tsx";
import { StandingMark } from "../../components/standing-mark.tsx";
import { duration, number, rate, roundDuration, share, short } from "../../format.ts";
import { finishedMinutes } from "../../finished.ts";
import { running } from "../../running.ts";
import { standingOf, standingWords } from "../../standing.ts";

type Queue = Wire<QueueHealth>;

/** A higher share of retries is shown as a warning. */
const manyRetries = 0.2;

const columnsAt = (at: string): readonly Column<Queue>[] => [
  {
    title: "Queue",
    head: true,
    sort: ({ queue }) => queue,
    cell: ({ queue }) => (
      <GoTo path="/queues/$queue" params={{ queue }} className="queue-name name" title={queue}>
        {queue}
      </GoTo>
    ),
  },
  {
    title: "Oldest ready",
    wide: true,
    sort: ({ oldestReadyMs }) => oldestReadyMs,
    cell: (queue) => <Age queue={queue} />,
  },
  {
    title: "Ready",
    number: true,
    sort: ({ depth }) => depth.ready,
    cell: ({ queue, depth }) => (
      <GoTo path="/jobs" search={{ queue, state: "ready" }} className="figure" title={number(depth.ready)}>
        {short(depth.ready)}
      </GoTo>
    ),
  },
  {
    title: "Running",
    number: true,
    sort: ({ depth }) => depth.running,
    cell: ({ depth, slots, workers }) => (
      <div className="health-slots">
        <span>
          {number(running(depth, slots).now)}
          {slots.total > 0 && <span className="muted"> / {number(slots.total)}</span>}
        </span>
        {workers === 0 ? (
          <span className="second warn">no worker</span>
        ) : (
          <Bar
            value={slots.busy}
            limit={slots.total}
            label={`${number(slots.busy)} of ${number(slots.total)} slots busy`}
          />
        )}
        {running(depth, slots).beside !== "" && (
          <span className="second">{running(depth, slots).beside}</span>
        )}
      </div>
    ),
  },
  {
    title: "Arrived and ended",
    wide: true,
    sort: ({ rates }) => rates.ended,
    cell: (queue) => <Flow queue={queue} at={at} />,
  },
  {
    title: "Drains in",
    number: true,
    sort: ({ drainMs }) => drainMs,
    leaves: "next",
    cell: ({ depth, drainMs, paused }) =>
      depth.ready === 0 ? (
        <span className="muted">empty</span>
      ) : (paused ?? null) !== null ? (
        <span className="muted">paused</span>
      ) : drainMs === null ? (
        <span className="warn">not draining</span>
      ) : (
        duration(drainMs)
      ),
  },
  {
    title: "Retries",
    number: true,
    sort: ({ retryShare }) => retryShare,
    leaves: "next",
    cell: ({ retryShare, depth }) => (
      <>
        <span className={(retryShare ?? 0) >= manyRetries ? "warn" : ""}>{share(retryShare)}</span>
        {depth.retrying > 0 && <div className="second">{short(depth.retrying)} retrying</div>}
      </>
    ),
  },
  {
    title: "Dead",
    number: true,
    sort: ({ depth }) => depth.dead,
    cell: ({ queue, depth, oldestDeadMs }) =>
      depth.dead === 0 ? (
        <span className="muted">0</span>
      ) : (
        <>
          <GoTo path="/dead" search={{ queue }} className="figure bad">
            {short(depth.dead)}
          </GoTo>
          <div className="second">oldest {duration(oldestDeadMs)}</div>
        </>
      ),
  },
];

const byName = { label: "Filter queues", text: ({ queue }: Queue) => queue };

/** The rows arrive in the order of `inspect/health.ts`: the queue that misses its target first is on top. */
export function QueueRows({
  queues,
  at = "",
}: {
  readonly queues: readonly Queue[] | undefined;
  /** When these figures were taken. */
  readonly at: string | undefined;
}) {
  const columns = useMemo(() => columnsAt(at), [at]);
  return (
    <div className="health-rows">
      <Rows
        label="Queues"
        filter={byName}
        columns={columns}
        items={queues}
        id={({ queue }) => queue}
        open={({ queue }) => ({ path: "/queues/$queue", params: { queue } })}
        look={(queue) => standingOf(queue)}
      />
    </div>
  );
}

/** The oldest age in large type, with its target as a bar and a word. */
function Age({ queue }: { readonly queue: Queue }) {
  const { word, detail } = standingWords(queue);
  const { oldestReadyMs, targetMs, breachInMs } = queue;
  return (
    <div className="health-age">
      <span className={`health-age-value tabular ${word}`}>{duration(oldestReadyMs)}</span>
      <div className="health-age-measure">
        <Bar
          value={oldestReadyMs ?? 0}
          limit={targetMs}
          tone={word === "paused" ? "plain" : word}
          label={`${duration(oldestReadyMs)} of ${roundDuration(targetMs)}`}
        />
        <span className="second">target {roundDuration(targetMs)}</span>
      </div>
      <div className="health-age-word" title={detail}>
        <StandingMark standing={word} />
        {(word === "late" || word === "soon") && (
          <span className="second">{word === "late" ? overBy(queue) : `in ${duration(breachInMs)}`}</span>
        )}
      </div>
    </div>
  );
}

function overBy({ oldestReadyMs, targetMs }: Queue): string {
  const over = (oldestReadyMs ?? 0) - targetMs;
  return over > 0 ? `by ${duration(over)}` : "";
}

function Flow({ queue: { rates, recent }, at }: { readonly queue: Queue; readonly at: string }) {
  const minutes = finishedMinutes(recent, at);
  return (
    <div className="health-flow">
      <Sparkline
        lines={[
          { look: "in", values: minutes.map(({ arrived }) => arrived) },
          { look: "out", values: minutes.map(({ ended }) => ended) },
        ]}
        label="Jobs arrived and ended by minute, over the last 30 minutes"
      />
      <div className="health-flow-rates tabular">
        <span>
          <span className="health-flow-word in">arrived</span> {rate(rates.arrived)}
        </span>
        <span>
          <span className="health-flow-word out">ended</span> {rate(rates.ended)}
        </span>
      </div>
    </div>
  );
}
