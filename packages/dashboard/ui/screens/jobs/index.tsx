import { useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { EmptyState } from "../../components/empty-state.tsx";
import type { FilterChange } from "../../components/filter-bar.tsx";
import { destination } from "../../components/link.tsx";
import { Failed, Page } from "../../components/page.tsx";
import { reveal } from "../../components/plain-text.tsx";
import { stateOrder } from "../../components/state-mark.tsx";
import { Table } from "../../components/table.tsx";
import { useJobCount, useRights } from "../../queries.ts";
import type { Screen } from "../../screen.ts";
import { useUrl } from "../../url.ts";
import { allActions } from "../operations/actions.ts";
import { countedJobs } from "../operations/count.ts";
import { FilterActions, SelectionBar } from "./bulk-actions.tsx";
import { jobColumns } from "./columns.tsx";
import { JobFilters } from "./job-filters.tsx";
import { ListFoot } from "./list-foot.tsx";
import { jobsSearch } from "./search.ts";
import { useJobList } from "./use-job-list.ts";

const none: ReadonlySet<string> = new Set();

function Jobs() {
  const [values, setUrl] = useUrl(jobsSearch);
  const navigate = useNavigate();
  const { operate } = useRights();
  const [selected, setSelected] = useState(none);

  const list = useJobList(values, (after) => {
    setSelected(none);
    setUrl({ after });
  });
  const { filter, response, search } = list;
  const count = useJobCount(filter);
  const jobs = response.data?.jobs;
  const chosen = useMemo(() => jobs?.filter(({ id }) => selected.has(id)) ?? [], [jobs, selected]);

  const change: FilterChange = (next) => {
    setSelected(none);
    // A new filter starts at the newest page.
    setUrl({ ...next, after: undefined });
  };
  const narrowed = Object.keys(filter).length > 0;
  return (
    <Page
      title="Jobs"
      note={
        <span className="tabular">
          {count.data === undefined
            ? count.isError
              ? "Not counted"
              : "Counting …"
            : `${countedJobs(count.data)}${narrowed ? " match" : ""}`}
        </span>
      }
      actions={
        <FilterActions
          actions={allActions}
          filter={filter}
          none={count.data?.count === 0 && !count.data.capped}
        />
      }
    >
      <JobFilters states={stateOrder} values={values} onChange={change} />
      {response.isError ? <Failed error={response.error} again={() => void response.refetch()} /> : null}
      {response.isError && jobs === undefined ? null : (
        <div className="job-list" data-waiting={response.isPlaceholderData || undefined}>
          <SelectionBar actions={allActions} rows={chosen} onClear={() => setSelected(none)} />
          <Table
            label="Jobs"
            columns={jobColumns(jobs)}
            rows={jobs}
            rowId={({ id }) => id}
            rowName={(job) => `${reveal(job.kind)}, ${job.state}`}
            onOpen={({ id }) => void navigate(destination({ path: "/jobs/$id", params: { id } }))}
            selection={operate ? { ids: selected, change: setSelected } : undefined}
            empty={
              // An unfinished search without results is not an empty list: the footer shows its progress.
              search !== undefined ? null : narrowed || values.after !== undefined ? (
                <NoneMatch />
              ) : (
                <NoJobs />
              )
            }
          />
          <ListFoot shown={jobs?.length ?? 0} search={search} newer={list.newer} older={list.older} />
        </div>
      )}
    </Page>
  );
}

function NoneMatch() {
  return (
    <EmptyState title="No job matches">
      Remove a filter above, or look for another state. Finished jobs are kept only as long as their kind
      says.
    </EmptyState>
  );
}

function NoJobs() {
  return (
    <EmptyState
      title="No jobs yet"
      code={
        'await stint.enqueue(sendReceipt, { paymentId: "pay_1" });\n\n// or from any language\nselect stint.enqueue(\'send-receipt\', \'{"paymentId": "pay_1"}\');'
      }
    >
      A job appears here as soon as the transaction that enqueued it commits.
    </EmptyState>
  );
}

export const screen: Screen = {
  path: "/jobs",
  title: "Jobs",
  icon: "M2.5 3.5h11M2.5 8h11M2.5 12.5h11",
  key: "j",
  search: jobsSearch,
  component: Jobs,
};
