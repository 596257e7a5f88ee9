import type { KindView } from "stint/inspect";
import type { Wire } from "../../api.ts";
import { EmptyState } from "../../components/empty-state.tsx";
import { GoTo } from "../../components/link.tsx";
import { Banner } from "../../components/page.tsx";
import { Rows, type Column } from "../../components/rows.tsx";
import { duration, number, rate } from "../../format.ts";
import { deadColumn, readyColumn, runningColumn } from "../queues/depth-columns.tsx";

type Kind = Wire<KindView>;

const columns: readonly Column<Kind>[] = [
  {
    title: "Kind",
    head: true,
    sort: ({ kind }) => kind,
    cell: ({ kind, queue }) => (
      <GoTo path="/jobs" search={{ kind, queue }} className="name" title={kind}>
        {kind}
      </GoTo>
    ),
  },
  readyColumn,
  runningColumn,
  deadColumn,
  { title: "Ended", number: true, sort: ({ rates }) => rates.ended, cell: ({ rates }) => rate(rates.ended) },
  {
    title: "Queue time p95",
    number: true,
    sort: ({ wait }) => wait.p95,
    cell: ({ wait }) => duration(wait.p95),
  },
  {
    title: "Run time p50",
    number: true,
    sort: ({ run }) => run.p50,
    leaves: "next",
    cell: ({ run }) => duration(run.p50),
  },
  { title: "Run time p95", number: true, sort: ({ run }) => run.p95, cell: ({ run }) => duration(run.p95) },
  {
    title: "Run time p99",
    number: true,
    sort: ({ run }) => run.p99,
    leaves: "first",
    cell: ({ run }) => duration(run.p99),
  },
  {
    title: "Attempts per success",
    number: true,
    sort: ({ attemptsPerSuccess }) => attemptsPerSuccess,
    leaves: "next",
    cell: ({ attemptsPerSuccess }) => (attemptsPerSuccess === null ? "–" : attemptsPerSuccess.toFixed(2)),
  },
  {
    title: "Serving",
    number: true,
    sort: ({ workers }) => workers,
    cell: ({ workers }) => (workers === 0 ? <span className="bad">none</span> : number(workers)),
  },
];

export function KindRows({
  kinds,
  queue,
}: {
  readonly kinds: readonly Kind[] | undefined;
  readonly queue: string;
}) {
  if (kinds?.length === 0) {
    return (
      <EmptyState title="No kind is known here yet">Kinds of {queue} appear with their first job.</EmptyState>
    );
  }
  const advised = kinds?.filter(({ leaseAdvice }) => leaseAdvice !== null) ?? [];
  return (
    <>
      {advised.map(({ kind, leaseAdvice }) => (
        <Banner key={kind} tone="info" title={`The lease of ${kind}`}>
          {leaseAdvice}
        </Banner>
      ))}
      <Rows
        label="Kinds"
        columns={columns}
        items={kinds}
        id={({ kind }) => kind}
        open={({ kind, queue }) => ({ path: "/jobs", search: { kind, queue } })}
      />
    </>
  );
}
