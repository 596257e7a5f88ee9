import type { QueueHealth } from "stint/inspect";
import type { Wire } from "../../api.ts";
import { GoTo, type To } from "../../components/link.tsx";
import { duration, number, plural, rate, roundDuration, share } from "../../format.ts";
import { running } from "../../running.ts";

type Figure = { readonly title: string; readonly value: string; readonly detail: string; readonly to?: To };

/** The queue's current figures, with placeholders while they load. */
export function Now({ now }: { readonly now: Wire<QueueHealth> | undefined }) {
  return (
    <dl className="queue-now card tabular" aria-busy={now === undefined}>
      {(now === undefined ? waiting : figures(now)).map(({ title, value, detail, to }) => (
        <div key={title}>
          <dt>{title}</dt>
          <dd>
            {to === undefined ? (
              <span className="queue-figure">{value}</span>
            ) : (
              <GoTo {...to} className="queue-figure figure">
                {value}
              </GoTo>
            )}
            <span className="second">{detail}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}

function figures({ queue, depth, slots, workers, rates, ...now }: Wire<QueueHealth>): readonly Figure[] {
  const jobs = (state: string): To => ({ path: "/jobs", search: { queue, state } });
  return [
    {
      title: "Oldest ready",
      value: duration(now.oldestReadyMs),
      detail: `target ${roundDuration(now.targetMs)}`,
    },
    {
      title: "Ready",
      value: number(depth.ready),
      detail: (now.paused ?? null) === null ? draining(depth, now.drainMs) : "paused",
      to: jobs("ready"),
    },
    {
      title: "Running",
      value: number(running(depth, slots).now),
      detail: [
        workers === 0 ? "no worker" : `${plural(slots.total, "slot")} on ${plural(workers, "worker")}`,
        running(depth, slots).beside,
      ]
        .filter((text) => text !== "")
        .join(", "),
      to: jobs("running"),
    },
    { title: "Ended", value: rate(rates.ended), detail: `${rate(rates.arrived)} arrived` },
    {
      title: "Retries",
      value: share(now.retryShare),
      detail: `${number(depth.retrying)} retrying`,
      to: jobs("retrying"),
    },
    {
      title: "Dead",
      value: number(depth.dead),
      detail: depth.dead === 0 ? "none" : `oldest ${duration(now.oldestDeadMs)}`,
      to: { path: "/dead", search: { queue } },
    },
  ];
}

function draining({ ready, parked }: { ready: number; parked: number }, drainMs: number | null): string {
  // They wait for a place, for tokens or for a person: without them, a queue with work would look empty.
  const held = parked === 0 ? "" : `${number(parked)} parked`;
  if (ready === 0) return held === "" ? "empty" : held;
  const drains = drainMs === null ? "not draining" : `drains in ${duration(drainMs)}`;
  return held === "" ? drains : `${drains}, ${held}`;
}

const waiting: readonly Figure[] = ["Oldest ready", "Ready", "Running", "Ended", "Retries", "Dead"].map(
  (title) => ({ title, value: "–", detail: " " }),
);
