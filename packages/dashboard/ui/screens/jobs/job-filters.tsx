import { useMemo } from "react";
import type { JobState } from "stint";
import {
  FilterBar,
  type FilterChange,
  type FilterField,
  type FilterValues,
} from "../../components/filter-bar.tsx";
import { TimeFilter } from "../../components/filter-bar-time.tsx";
import { useKinds, useMe } from "../../queries.ts";
import { SavedViews } from "./saved-views.tsx";
import { SearchBox } from "./search-box.tsx";
import type { Known } from "./search-words.ts";
import "./search-box.css";

/** Filters set by other parts of the page, removable here. */
const also: readonly FilterField[] = [
  { name: "fingerprint", label: "Died alike" },
  { name: "since", label: "Enqueued since" },
  { name: "until", label: "Enqueued before" },
];

/** The filters of the list. Existing kinds and queues are suggested. */
export function JobFilters({
  states,
  values,
  onChange,
}: {
  states: readonly JobState[];
  values: FilterValues;
  onChange: FilterChange;
}) {
  const { data: kinds } = useKinds();
  const { data: me } = useMe();
  const fields: readonly FilterField[] = useMemo(
    () => [
      { name: "kind", label: "Kind", suggestions: distinct(kinds?.map(({ kind }) => kind)) },
      { name: "queue", label: "Queue", suggestions: distinct(kinds?.map(({ queue }) => queue)) },
      { name: "tenant", label: "Tenant" },
      { name: "key", label: "Key" },
      { name: "tag", label: "Tag" },
      { name: "error", label: "Error or reason", placeholder: "part of its text" },
    ],
    [kinds],
  );
  const allowed =
    me?.filters === undefined ? fields : fields.filter(({ name }) => me.filters?.includes(name));
  const known: Known = useMemo(
    () => ({
      state: states,
      kind: distinct(kinds?.map(({ kind }) => kind)),
      queue: distinct(kinds?.map(({ queue }) => queue)),
      since: ["15m", "1h", "24h", "7d"],
    }),
    [kinds, states],
  );
  return (
    <>
      <div className="search-line">
        <SearchBox values={values} known={known} schema={me?.schema} onChange={onChange} />
        <SavedViews values={values} />
      </div>
      <FilterBar states={states} fields={allowed} also={also} values={values} onChange={onChange}>
        <TimeFilter values={values} onChange={onChange} />
      </FilterBar>
    </>
  );
}

function distinct(names: readonly string[] = []): string[] {
  return [...new Set(names)].sort();
}
