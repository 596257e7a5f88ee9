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

/** Set by other parts of the page, and taken back here. */
const also: readonly FilterField[] = [
  { name: "fingerprint", label: "Died alike" },
  { name: "since", label: "Enqueued since" },
  { name: "until", label: "Enqueued before" },
];

/** What jobs are narrowed by. Kinds and queues that exist are suggested. */
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
  return (
    <FilterBar states={states} fields={allowed} also={also} values={values} onChange={onChange}>
      <TimeFilter values={values} onChange={onChange} />
    </FilterBar>
  );
}

function distinct(names: readonly string[] = []): string[] {
  return [...new Set(names)].sort();
}
