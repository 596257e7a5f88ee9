import { useNavigate } from "@tanstack/react-router";
import type { FlowSummary } from "stint";
import type { Wire } from "../../api.ts";
import { Age } from "../../components/age.tsx";
import { Bar } from "../../components/bar.tsx";
import { EmptyState } from "../../components/empty-state.tsx";
import { FilterBar } from "../../components/filter-bar.tsx";
import { destination, GoTo } from "../../components/link.tsx";
import { Failed, Page } from "../../components/page.tsx";
import { PlainText, reveal } from "../../components/plain-text.tsx";
import { RangeSwitch } from "../../components/range-switch.tsx";
import { Table, type Column } from "../../components/table.tsx";
import { TablePages } from "../../components/table-pages.tsx";
import { number } from "../../format.ts";
import { useFlows } from "../../queries.ts";
import type { Screen } from "../../screen.ts";
import { oneOf, text, useUrl } from "../../url.ts";
import { FlowAge, FlowMark, flowName } from "./flow-words.tsx";
import "./flows.css";

type Row = Wire<FlowSummary>;

const shows = ["live", "all"] as const;
const search = { search: text, show: oneOf<(typeof shows)[number]>(shows, "live"), after: text };

const figure = (value: number, tone: string) =>
  value === 0 ? <span className="muted">0</span> : <span className={tone}>{number(value)}</span>;

const columns: readonly Column<Row>[] = [
  {
    id: "name",
    header: "Flow",
    card: "title",
    grow: true,
    cell: (flow) => (
      <GoTo path="/flows/$id" params={{ id: flow.id }} title={reveal(flowName(flow))}>
        <PlainText>{flowName(flow)}</PlainText>
      </GoTo>
    ),
  },
  { id: "state", header: "Status", card: "corner", cell: ({ state }) => <FlowMark state={state} /> },
  { id: "age", header: "Age", align: "end", cell: (flow) => <FlowAge flow={flow} /> },
  {
    id: "progress",
    header: "Succeeded",
    cell: ({ succeeded, parts, state }) => (
      <div className="flow-progress">
        <Bar
          value={succeeded}
          limit={parts}
          tone={state === "stuck" || state === "failed" ? "late" : "ok"}
          label={`${number(succeeded)} of ${number(parts)} succeeded`}
        />
        <span className="tabular">
          {number(succeeded)} of {number(parts)}
        </span>
      </div>
    ),
  },
  { id: "live", header: "Live", align: "end", leaves: "next", cell: ({ live }) => figure(live, "") },
  { id: "blocked", header: "Blocked", align: "end", cell: ({ blocked }) => figure(blocked, "warn") },
  { id: "dead", header: "Dead", align: "end", cell: ({ dead }) => figure(dead, "bad") },
  {
    id: "cancelled",
    header: "Cancelled",
    align: "end",
    leaves: "next",
    cell: ({ cancelled }) => figure(cancelled, ""),
  },
  {
    id: "created",
    header: "Enqueued",
    align: "end",
    leaves: "first",
    cell: ({ createdAt }) => <Age at={createdAt} />,
  },
];

function Flows() {
  const [{ show, ...filter }, setUrl] = useUrl(search);
  const navigate = useNavigate();
  const list = useFlows({ ...filter, live: String(show === "live") });
  const rows = list.data?.flows;
  const next = list.isPlaceholderData ? null : (list.data?.next ?? null);
  return (
    <Page
      title="Flows"
      note="Flows, chains and batches, newest first"
      actions={
        <RangeSwitch ranges={shows} value={show} set={(to) => setUrl({ show: to, after: undefined })} />
      }
    >
      <FilterBar
        states={[]}
        fields={[{ name: "search", label: "Name", placeholder: "part of a name" }]}
        values={filter}
        onChange={(change) => setUrl({ ...change, after: undefined })}
      />
      {list.isError ? <Failed error={list.error} again={() => void list.refetch()} /> : null}
      {list.isError && rows === undefined ? null : (
        <div className="job-list" data-waiting={list.isPlaceholderData || undefined}>
          <Table
            label="Flows"
            columns={columns}
            rows={rows}
            rowId={({ id }) => id}
            rowName={(flow) => `${reveal(flowName(flow))}, ${flow.state}`}
            onOpen={({ id }) => void navigate(destination({ path: "/flows/$id", params: { id } }))}
            empty={
              filter.search === undefined && show === "all" ? (
                <EmptyState
                  title="There is no flow yet"
                  code={
                    'await stint.flow("checkout", {\n  charge: entry(charge, order),\n  ship: entry(ship, order, { after: ["charge"] }),\n});'
                  }
                >
                  A flow appears when jobs continue one another, wait for others, or are declared together.
                </EmptyState>
              ) : (
                <EmptyState title="No flow matches">
                  {show === "live"
                    ? "No flow has live parts. Show all to see those that ended."
                    : "Remove the filter above."}
                </EmptyState>
              )
            }
          />
          {filter.after === undefined && next === null ? null : (
            <TablePages
              words={["← Newest", "Older →"]}
              onNewer={filter.after === undefined ? undefined : () => setUrl({ after: undefined })}
              onOlder={next === null ? undefined : () => setUrl({ after: next })}
            >
              {`${number(rows?.length ?? 0)} on this page, newest first`}
            </TablePages>
          )}
        </div>
      )}
    </Page>
  );
}

export const screen: Screen = {
  path: "/flows",
  title: "Flows",
  icon: "M2 6.2h4v3.6H2zM10 2.2h4v3.6h-4zM10 10.2h4v3.6h-4zM6 8h2V4h2M8 8v4h2",
  key: "f",
  search,
  component: Flows,
};
