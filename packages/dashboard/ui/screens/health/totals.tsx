import type { Health } from "stint/inspect";
import type { Wire } from "../../api.ts";
import { GoTo, type To } from "../../components/link.tsx";
import { duration, number, rate, short } from "../../format.ts";
import { standingOf } from "../../standing.ts";

type Figure = {
  readonly title: string;
  readonly value: string;
  readonly exact?: string;
  readonly detail: string;
  readonly to?: To;
  readonly tone?: "late" | "soon";
};

/** The whole installation in one line. The oldest age comes first, because depth alone shows no delay. */
export function Totals({ health }: { readonly health: Wire<Health> | undefined }) {
  return (
    <ul className="totals card" aria-label="Totals" aria-busy={health === undefined}>
      {(health === undefined ? waiting : figures(health)).map(({ title, value, exact, detail, to, tone }) => (
        <li key={title} className={tone ?? ""}>
          <span className="totals-title">{title}</span>
          {to === undefined ? (
            <span className="totals-value">{value}</span>
          ) : (
            <GoTo {...to} className="totals-value tabular" {...(exact === undefined ? {} : { title: exact })}>
              {value}
            </GoTo>
          )}
          <span className="totals-detail">{detail}</span>
        </li>
      ))}
    </ul>
  );
}

function figures({ queues, total, workers, slow }: Wire<Health>): readonly Figure[] {
  const late = queues.filter((queue) => standingOf(queue) === "late").length;
  const soon = queues.filter((queue) => standingOf(queue) === "soon").length;
  const oldest = queues.reduce<Wire<Health>["queues"][number] | undefined>(
    (worst, queue) => ((queue.oldestReadyMs ?? -1) > (worst?.oldestReadyMs ?? -1) ? queue : worst),
    undefined,
  );
  const sum = (of: (queue: Wire<Health>["queues"][number]) => number) =>
    queues.reduce((total, queue) => total + of(queue), 0);
  const busy = sum(({ slots }) => slots.busy);
  const slots = sum(({ slots }) => slots.total);
  return [
    {
      title: "Oldest ready",
      value: duration(oldest?.oldestReadyMs),
      detail:
        late > 0
          ? `${number(late)} of ${number(queues.length)} queues late`
          : soon > 0
            ? `${number(soon)} of ${number(queues.length)} queues soon late`
            : oldest === undefined
              ? "nothing waits"
              : `in ${oldest.queue}`,
      to: { path: "/jobs", search: { state: "ready", queue: oldest?.queue } },
      ...(late > 0 ? { tone: "late" } : soon > 0 ? { tone: "soon" } : {}),
    },
    {
      title: "Ready",
      value: short(total.ready),
      exact: number(total.ready),
      detail: `${rate(sum(({ rates }) => rates.arrived))} arrived, ${rate(sum(({ rates }) => rates.ended))} ended`,
      to: { path: "/jobs", search: { state: "ready" } },
    },
    {
      title: "Running",
      value: short(total.running),
      detail: slow > 0 ? `${number(slow)} slow` : "none slow",
      to: { path: "/jobs", search: { state: "running" } },
      ...(slow > 0 ? { tone: "soon" } : {}),
    },
    {
      title: "Waiting to run",
      value: short(total.retrying + total.scheduled + total.parked),
      detail: parts({ retrying: total.retrying, scheduled: total.scheduled, parked: total.parked }),
      to: { path: "/jobs", search: { state: ["retrying", "scheduled", "parked"] } },
    },
    {
      title: "Dead",
      value: short(total.dead),
      exact: number(total.dead),
      detail: total.dead === 0 ? "none" : "need attention",
      to: { path: "/dead" },
      ...(total.dead > 0 ? { tone: "late" } : {}),
    },
    {
      title: "Workers",
      value: number(workers),
      detail: slots === 0 ? "no slots" : `${number(busy)} of ${number(slots)} slots busy`,
      to: { path: "/workers" },
      ...(workers === 0 ? { tone: "late" } : {}),
    },
  ];
}

/** `22 scheduled, 3 parked`; zero counts are left out. */
function parts(counts: Readonly<Record<string, number>>): string {
  const said = Object.entries(counts).flatMap(([state, count]) =>
    count === 0 ? [] : [`${short(count)} ${state}`],
  );
  return said.length === 0 ? "none" : said.join(", ");
}

const waiting: readonly Figure[] = [
  "Oldest ready",
  "Ready",
  "Running",
  "Waiting to run",
  "Dead",
  "Workers",
].map((title) => ({ title, value: " ", detail: " " }));
