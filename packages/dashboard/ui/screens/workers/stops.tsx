import type { WorkerStop } from "stint/inspect";
import type { Wire } from "../../api.ts";
import { Age } from "../../components/age.tsx";
import { Failed, Section } from "../../components/page.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { Rows, type Column } from "../../components/rows.tsx";
import { duration, number } from "../../format.ts";
import { useStops } from "../../queries.ts";
import { WorkerName } from "./worker-name.tsx";

type Stop = Wire<WorkerStop>;

const columns: readonly Column<Stop>[] = [
  {
    title: "Worker",
    head: true,
    sort: ({ worker }) => worker,
    cell: ({ worker, host }) => <WorkerName id={worker} host={host} />,
  },
  {
    title: "Version",
    sort: ({ version }) => version,
    cell: ({ version }) => <PlainText>{version}</PlainText>,
  },
  {
    title: "Stopped",
    sort: ({ stoppedAt }) => -Date.parse(stoppedAt),
    cell: ({ stoppedAt }) => <Age at={stoppedAt} />,
  },
  {
    title: "Ran for",
    number: true,
    leaves: "next",
    sort: ({ startedAt, stoppedAt }) => Date.parse(stoppedAt) - Date.parse(startedAt),
    cell: ({ startedAt, stoppedAt }) => duration(Date.parse(stoppedAt) - Date.parse(startedAt)),
  },
  {
    title: "Drained",
    number: true,
    sort: ({ drained }) => drained,
    cell: ({ drained }) => number(drained),
  },
  {
    title: "Released",
    number: true,
    sort: ({ released }) => released,
    cell: ({ released }) => <span className={released > 0 ? "warn" : ""}>{number(released)}</span>,
  },
  { title: "Drain time", number: true, sort: ({ ms }) => ms, cell: ({ ms }) => duration(ms) },
];

const byName = { label: "Filter stops", text: ({ worker, version }: Stop) => `${worker} ${version}` };

/** The latest stops: whether a deploy ends its jobs, and how long that takes. Nothing while none is known. */
export function Stops() {
  const { data, error, refetch } = useStops();
  if (data === undefined)
    return error === null ? null : <Failed error={error} again={() => void refetch()} />;
  if (data.length === 0) return null;
  return (
    <Section title="Latest stops" aside="Drained jobs ended in time; released ones start again elsewhere">
      <Rows
        label="Latest stops"
        columns={columns}
        items={data}
        id={({ worker, stoppedAt }) => `${worker} ${stoppedAt}`}
        filter={byName}
      />
    </Section>
  );
}
