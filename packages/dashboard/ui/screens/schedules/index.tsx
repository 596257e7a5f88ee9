import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { Button } from "../../components/button.tsx";
import { EmptyState } from "../../components/empty-state.tsx";
import { FilterBar, type FilterField } from "../../components/filter-bar.tsx";
import { destination } from "../../components/link.tsx";
import { Failed, Page } from "../../components/page.tsx";
import { RangeSwitch } from "../../components/range-switch.tsx";
import { SlotLegend } from "../../components/slot-timeline.tsx";
import { Table } from "../../components/table.tsx";
import { TablePages } from "../../components/table-pages.tsx";
import { number, plural } from "../../format.ts";
import { useKinds, useRights, useScheduleCounts, useSchedules } from "../../queries.ts";
import type { Screen } from "../../screen.ts";
import { oneOf, text, useUrl } from "../../url.ts";
import { AddSchedule } from "./add-schedule.tsx";
import { columns } from "./columns.tsx";
import { ranges, scheduleScreen, type Range } from "./schedule-words.tsx";
import "./schedules.css";

const search = {
  search: text,
  state: text,
  owner: text,
  kind: text,
  after: text,
  range: oneOf<Range>(ranges, "24h"),
};

const states = ["active", "paused", "ended", "broken"] as const;

function Schedules() {
  const [{ range, ...filter }, setUrl] = useUrl(search);
  const navigate = useNavigate();
  const rights = useRights();
  const counts = useScheduleCounts();
  const kinds = useKinds();
  const list = useSchedules(filter);
  const [adding, setAdding] = useState(false);
  const rows = list.data?.schedules;
  const next = list.isPlaceholderData ? null : (list.data?.next ?? null);
  const narrowed = Object.values(filter).some((value) => value !== undefined);

  const fields: readonly FilterField[] = [
    { name: "search", label: "Name", placeholder: "part of a name" },
    { name: "kind", label: "Kind", suggestions: [...new Set(kinds.data?.map(({ kind }) => kind))] },
    { name: "owner", label: "Owner", placeholder: "a service" },
  ];
  return (
    <Page
      title="Schedules"
      note={<span className="tabular">{counts.data === undefined ? " " : countText(counts.data)}</span>}
      actions={
        <>
          <RangeSwitch ranges={ranges} value={range} set={(to) => setUrl({ range: to })} />
          <Button
            because={rights.admin ? null : "Adding a schedule needs the role admin."}
            onClick={() => setAdding(true)}
          >
            Add …
          </Button>
        </>
      }
    >
      <FilterBar
        states={[]}
        fields={fields}
        also={[{ name: "state", label: "State" }]}
        values={filter}
        onChange={(change) => setUrl({ ...change, after: undefined })}
      >
        <div className="filter-field">
          <label htmlFor="schedule-state">State</label>
          <select
            id="schedule-state"
            value={filter.state ?? ""}
            onChange={(event) => setUrl({ state: event.currentTarget.value, after: undefined })}
          >
            <option value="">any</option>
            {states.map((state) => (
              <option key={state}>{state}</option>
            ))}
          </select>
        </div>
      </FilterBar>
      {list.isError ? <Failed error={list.error} again={() => void list.refetch()} /> : null}
      {list.isError && rows === undefined ? null : (
        <div className="job-list" data-waiting={list.isPlaceholderData || undefined}>
          <Table
            label="Schedules"
            columns={columns(range)}
            rows={rows}
            rowId={({ name }) => name}
            rowName={({ name, state }) => `${name}, ${state}`}
            onOpen={({ name }) => void navigate(destination(scheduleScreen(name)))}
            empty={narrowed ? <NoneMatch /> : <NoSchedules />}
          />
          {rows === undefined || rows.length === 0 ? null : <SlotLegend />}
          {filter.after === undefined && next === null ? null : (
            <TablePages
              words={["← First page", "Next →"]}
              onNewer={filter.after === undefined ? undefined : () => setUrl({ after: undefined })}
              onOlder={next === null ? undefined : () => setUrl({ after: next })}
            >
              {`${number(rows?.length ?? 0)} on this page, by name`}
            </TablePages>
          )}
        </div>
      )}
      {adding ? <AddSchedule onClose={() => setAdding(false)} /> : null}
    </Page>
  );
}

function countText(counts: Readonly<Record<(typeof states)[number], number>>): string {
  const all = states.reduce((sum, state) => sum + counts[state], 0);
  const others = states.filter((state) => state !== "active" && counts[state] > 0);
  return [plural(all, "schedule"), ...others.map((state) => `${number(counts[state])} ${state}`)].join(", ");
}

function NoneMatch() {
  return <EmptyState title="No schedule matches">Remove a filter above, or check the spelling.</EmptyState>;
}

function NoSchedules() {
  return (
    <EmptyState
      title="There is no schedule yet"
      code={
        'const nightly = defineSchedule("nightly-audit", {\n  cron: "30 2 * * *",\n  zone: "Europe/Berlin",\n  job: audit,\n  payload: {},\n});\n' +
        'stint.worker({ pools, handlers, owner: "billing", schedules: [nightly] });'
      }
    >
      A schedule enqueues a job at every slot of a rule. Declare it in code, or add one here.
    </EmptyState>
  );
}

export const screen: Screen = {
  path: "/schedules",
  title: "Schedules",
  icon: "M2.5 3.5h11v10h-11zM2.5 6.8h11M5.5 1.8v3M10.5 1.8v3",
  key: "c",
  search,
  component: Schedules,
};
