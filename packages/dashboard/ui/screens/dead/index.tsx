import { useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { EmptyState } from "../../components/empty-state.tsx";
import type { FilterChange } from "../../components/filter-bar.tsx";
import { destination, GoTo } from "../../components/link.tsx";
import { Failed, Page } from "../../components/page.tsx";
import { PlainText, reveal } from "../../components/plain-text.tsx";
import { Table } from "../../components/table.tsx";
import { useJobCount, useRights } from "../../queries.ts";
import type { Screen } from "../../screen.ts";
import { text, useUrl } from "../../url.ts";
import { FilterActions, SelectionBar } from "../jobs/bulk-actions.tsx";
import { deadColumns } from "../jobs/columns.tsx";
import { JobFilters } from "../jobs/job-filters.tsx";
import { ListFoot } from "../jobs/list-foot.tsx";
import { jobsSearch } from "../jobs/search.ts";
import { useJobList } from "../jobs/use-job-list.ts";
import { actions } from "../operations/actions.ts";
import { countedJobs } from "../operations/count.ts";
import { groupsOf, type Group } from "./groups.ts";
import { replayColumn } from "./replay-one.tsx";
import "./dead.css";

const deadSearch = { ...jobsSearch, group: text };
const none: ReadonlySet<string> = new Set();
const replay = [actions.replay];
const withReplay = [...deadColumns, replayColumn];

function Dead() {
  const [values, setUrl] = useUrl(deadSearch);
  const navigate = useNavigate();
  const { operate } = useRights();
  const [selected, setSelected] = useState(none);

  const dead = useMemo(() => ({ ...values, state: "dead" }), [values]);
  const list = useJobList(dead, (after) => {
    setSelected(none);
    setUrl({ after, group: undefined });
  });
  const { filter, answer, partial } = list;
  const count = useJobCount(filter);

  const jobs = answer.data?.jobs;
  const groups = useMemo(() => groupsOf(jobs ?? []), [jobs]);
  const group = groups.find(({ id }) => id === values.group);
  const shown = group?.jobs ?? jobs;
  const chosen = useMemo(() => jobs?.filter(({ id }) => selected.has(id)) ?? [], [jobs, selected]);

  const change: FilterChange = (next) => {
    setSelected(none);
    setUrl({ ...next, after: undefined, group: undefined });
  };
  const narrowed = Object.keys(filter).length > 1;
  return (
    <Page
      title="Dead"
      note={
        <span className="tabular">
          {count.data === undefined
            ? "Jobs that will not be tried again by themselves"
            : `${countedJobs(count.data)} that will not be tried again by themselves`}
        </span>
      }
      actions={<FilterActions actions={replay} filter={filter} none={count.data?.count === 0} />}
    >
      <JobFilters states={[]} values={values} onChange={change} />
      {answer.isError ? <Failed error={answer.error} again={() => void answer.refetch()} /> : null}
      {groups.length > 1 ? (
        <Groups
          groups={groups}
          open={group?.id}
          onOpen={(id) => {
            setSelected(none);
            setUrl({ group: id });
          }}
        />
      ) : null}
      {answer.isError && jobs === undefined ? null : (
        <div className="job-list" data-waiting={answer.isPlaceholderData || undefined}>
          <SelectionBar actions={replay} rows={chosen} onClear={() => setSelected(none)} />
          <Table
            label="Dead jobs"
            columns={operate ? withReplay : deadColumns}
            rows={shown}
            rowId={({ id }) => id}
            rowName={(job) => `${reveal(job.kind)}, ${reveal(job.error?.name ?? job.reason ?? "dead")}`}
            onOpen={({ id }) => void navigate(destination({ path: "/jobs/$id", params: { id } }))}
            selection={operate ? { ids: selected, change: setSelected } : undefined}
            empty={
              narrowed ? (
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
          <ListFoot shown={shown?.length ?? 0} partial={partial} newer={list.newer} older={list.older} />
        </div>
      )}
    </Page>
  );
}

/** What this page's jobs died of. Choosing one shows only its jobs; then x or the box in the head selects them all. */
function Groups({
  groups,
  open,
  onOpen,
}: {
  groups: readonly Group[];
  open: string | undefined;
  onOpen: (id: string | undefined) => void;
}) {
  return (
    <section className="dead-groups" aria-label="Died alike, on this page">
      {groups.slice(0, 12).map(({ id, kind, error, jobs }) => (
        <button
          key={id}
          type="button"
          className="dead-group"
          aria-pressed={id === open}
          onClick={() => onOpen(id === open ? undefined : id)}
        >
          <span className="dead-group-count">{jobs.length}</span>
          <span className="dead-group-words">
            <PlainText className="dead-group-error">{error}</PlainText>
            <PlainText className="muted">{kind}</PlainText>
          </span>
        </button>
      ))}
    </section>
  );
}

export const screen: Screen = {
  path: "/dead",
  title: "Dead",
  icon: "M3 3h10v10H3zM5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4",
  key: "d",
  search: deadSearch,
  component: Dead,
};
