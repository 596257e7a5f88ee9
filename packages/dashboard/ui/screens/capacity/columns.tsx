import type { CapacityResponse } from "../../api.ts";
import { GoTo } from "../../components/link.tsx";
import { Meter } from "../../components/meter.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import type { Column } from "../../components/rows.tsx";
import { duration, number, plural, rate, roundDuration, share } from "../../format.ts";
import { recommendationText } from "./recommendation.ts";

export type Pool = CapacityResponse["pools"][number];

/** Busier slots leave no room for a peak. */
const busy = 0.9;

export const columns: readonly Column<Pool>[] = [
  {
    title: "Pool",
    head: true,
    sort: ({ pool }) => pool,
    cell: ({ pool, queues }) => <PoolName pool={pool} queues={queues} />,
  },
  {
    title: "Workers",
    number: true,
    sort: ({ workers }) => workers,
    cell: ({ workers, slots }) => (
      <>
        {number(workers)}
        {slots === null ? null : <div className="second">{plural(slots, "slot")} each</div>}
      </>
    ),
  },
  {
    title: "Recommended",
    number: true,
    sort: ({ recommended }) => recommended,
    cell: (pool) => (
      <>
        <strong>{number(pool.recommended)}</strong>
        <div className={pool.recommended > pool.workers ? "second warn" : "second"}>
          {recommendationText(pool).change}
        </div>
      </>
    ),
  },
  {
    title: "Bottleneck",
    wide: true,
    sort: ({ limitedBy }) => limitedBy.factor,
    cell: (pool) => {
      const { factor, text } = pool.limitedBy;
      const { because } = recommendationText(pool);
      return (
        <div className="capacity-why">
          <span className={factor === "none" ? "muted" : ""}>
            <PlainText>{text}</PlainText>
          </span>
          {because === "" ? null : <div className="second">{because}</div>}
        </div>
      );
    },
  },
  {
    title: "Utilisation",
    sort: ({ utilisation }) => utilisation,
    cell: ({ utilisation }) =>
      utilisation === null ? (
        <span className="muted">no slots</span>
      ) : (
        <Meter
          value={utilisation}
          limit={1}
          tone={utilisation >= busy ? "soon" : "plain"}
          label={`${share(utilisation)} of the slots are busy`}
        >
          {share(utilisation)}
        </Meter>
      ),
  },
  {
    title: "Ready",
    number: true,
    sort: ({ ready }) => ready,
    cell: ({ ready, waiting }) => (
      <>
        {number(ready)}
        {waiting === 0 ? null : <div className="second">{number(waiting)} at a limit</div>}
      </>
    ),
  },
  {
    title: "Oldest ready",
    number: true,
    leaves: "next",
    sort: ({ oldestReadyMs }) => oldestReadyMs,
    cell: ({ oldestReadyMs, targetMs }) => (
      <>
        <span className={(oldestReadyMs ?? 0) > targetMs ? "warn" : ""}>{duration(oldestReadyMs)}</span>
        <div className="second">target {roundDuration(targetMs)}</div>
      </>
    ),
  },
  {
    title: "Arrived",
    number: true,
    leaves: "first",
    sort: ({ arrivedPerS }) => arrivedPerS,
    cell: ({ arrivedPerS }) => rate(arrivedPerS),
  },
  {
    title: "Ended",
    number: true,
    leaves: "first",
    sort: ({ ranPerS }) => ranPerS,
    cell: ({ ranPerS }) => rate(ranPerS),
  },
  {
    title: "Drains in",
    number: true,
    sort: ({ drainMs }) => drainMs,
    cell: ({ ready, drainMs }) =>
      ready === 0 ? (
        <span className="muted">empty</span>
      ) : drainMs === null ? (
        <span className="warn">not draining</span>
      ) : (
        duration(drainMs)
      ),
  },
];

/** A pool of one queue links to it. A pattern matches several. */
function PoolName({ pool, queues }: { readonly pool: string; readonly queues: readonly string[] }) {
  const [queue, ...others] = queues;
  if (queue === undefined || others.length > 0 || queue.includes("*"))
    return <PlainText whole>{pool}</PlainText>;
  return (
    <GoTo path="/queues/$queue" params={{ queue }} className="name" title={queue}>
      {pool}
    </GoTo>
  );
}
