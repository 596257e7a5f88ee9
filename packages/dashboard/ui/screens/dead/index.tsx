import { useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import type { JobsFilter } from "../../api.ts";
import { EmptyState } from "../../components/empty-state.tsx";
import type { FilterChange } from "../../components/filter-bar.tsx";
import { destination, GoTo } from "../../components/link.tsx";
import { Failed, Page } from "../../components/page.tsx";
import { reveal } from "../../components/plain-text.tsx";
import { Table } from "../../components/table.tsx";
import { useDeadGroups, useJobCount, useRights } from "../../queries.ts";
import type { Screen } from "../../screen.ts";
import { useUrl } from "../../url.ts";
import { FilterActions, SelectionBar } from "../jobs/bulk-actions.tsx";
import { deadColumns } from "../jobs/columns.tsx";
import { JobFilters } from "../jobs/job-filters.tsx";
import { ListFoot } from "../jobs/list-foot.tsx";
import { jobsSearch } from "../jobs/search.ts";
import { useJobList } from "../jobs/use-job-list.ts";
import { actions } from "../operations/actions.ts";
import { BulkDialog } from "../operations/bulk-dialog.tsx";
import { countedJobs } from "../operations/count.ts";
import { Groups } from "./groups.tsx";
import { replayColumn } from "./replay-one.tsx";
import "./dead.css";

const none: ReadonlySet<string> = new Set();
const replay = [actions.replay];
const withReplay = [...deadColumns, replayColumn];

function Dead() {
  const [values, setUrl] = useUrl(jobsSearch);
  const navigate = useNavigate();
  const { operate } = useRights();
  const [selected, setSelected] = useState(none);
  // Outside the groups: they unmount when the last one is replayed, and the dialog would unmount with them.
  const [replaying, setReplaying] = useState<JobsFilter>();

  const dead = useMemo(() => ({ ...values, state: "dead" }), [values]);
  const list = useJobList(dead, (after) => {
    setSelected(none);
    setUrl({ after });
  });
  const { filter, response, search } = list;
  const count = useJobCount(filter);

  const jobs = response.data?.jobs;
  // Groups can be filtered only by kind and queue. Next to a list with further filters they would count other jobs.
  const groupable = !["tenant", "key", "tag", "error", "since", "until"].some((name) => name in filter);
  const kind = values.fingerprint === undefined ? values.kind : undefined;
  const groups = useDeadGroups({ kind, queue: values.queue });
  const chosen = useMemo(() => jobs?.filter(({ id }) => selected.has(id)) ?? [], [jobs, selected]);

  const change: FilterChange = (next) => {
    setSelected(none);
    // A group belongs to one kind. Without the kind, the filter would match jobs of other kinds with the same fingerprint.
    const apart = "kind" in next ? { fingerprint: undefined } : {};
    setUrl({ ...apart, ...next, after: undefined });
  };
  const narrowed = Object.keys(filter).length > 1;
  return (
    <Page
      title="Dead"
      note={
        <span className="tabular">
          {count.data === undefined
            ? "Jobs that won't be retried automatically"
            : `${countedJobs(count.data)} that won't be retried automatically`}
        </span>
      }
      actions={
        <FilterActions
          actions={replay}
          filter={filter}
          none={count.data?.count === 0 && !count.data.capped}
        />
      }
    >
      <JobFilters states={[]} values={values} onChange={change} />
      {response.isError ? <Failed error={response.error} again={() => void response.refetch()} /> : null}
      {groupable && groups.isError && !response.isError ? (
        <Failed error={groups.error} again={() => void groups.refetch()} />
      ) : null}
      {groupable && (groups.data?.groups.length ?? 0) > 0 && groups.data !== undefined ? (
        <Groups
          response={groups.data}
          open={values}
          onOpen={(group) => {
            setSelected(none);
            setUrl({ kind: group?.kind, fingerprint: group?.fingerprint, after: undefined });
          }}
          onReplay={({ kind, fingerprint }) => {
            const within = values.queue === undefined ? {} : { queue: values.queue };
            setReplaying({ state: ["dead"], kind, fingerprint, ...within });
          }}
        />
      ) : null}
      {replaying === undefined ? null : (
        <BulkDialog action={actions.replay} filter={replaying} onClose={() => setReplaying(undefined)} />
      )}
      {response.isError && jobs === undefined ? null : (
        <div className="job-list" data-waiting={response.isPlaceholderData || undefined}>
          <SelectionBar actions={replay} rows={chosen} onClear={() => setSelected(none)} />
          <Table
            label="Dead jobs"
            columns={operate ? withReplay : deadColumns}
            rows={jobs}
            rowId={({ id }) => id}
            rowName={(job) => `${reveal(job.kind)}, ${reveal(job.error?.name ?? job.reason ?? "dead")}`}
            onOpen={({ id }) => void navigate(destination({ path: "/jobs/$id", params: { id } }))}
            selection={operate ? { ids: selected, change: setSelected } : undefined}
            empty={
              search !== undefined ? null : narrowed ? (
                <EmptyState title="No dead job matches">Remove a filter to see the others.</EmptyState>
              ) : (
                <EmptyState title="Nothing is dead">
                  A job dies when its attempts are spent or its error says that another attempt cannot help.
                  It is kept here until it is replayed or pruned. Those that will be tried again are{" "}
                  <GoTo path="/jobs" search={{ state: "retrying" }}>
                    retrying
                  </GoTo>
                  .
                </EmptyState>
              )
            }
          />
          <ListFoot shown={jobs?.length ?? 0} search={search} newer={list.newer} older={list.older} />
        </div>
      )}
    </Page>
  );
}

export const screen: Screen = {
  path: "/dead",
  title: "Dead",
  icon: "M3 3h10v10H3zM5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4",
  key: "d",
  search: jobsSearch,
  component: Dead,
};
