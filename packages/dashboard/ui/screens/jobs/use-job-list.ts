import { useMemo, useRef, useState } from "react";
import type { JobsFilter } from "../../api.ts";
import { useNow } from "../../components/age.tsx";
import type { FilterValues } from "../../components/filter-bar.tsx";
import { useJobs } from "../../queries.ts";
import { toFilter } from "./search.ts";

export const pageSize = 50;

/** The page of jobs for a URL, and links to the adjacent pages. */
export function useJobList(values: FilterValues, go: (after: string | undefined) => void) {
  // Rounded to the minute: otherwise "the last hour" would be a new query every second.
  const minute = useNow(60);
  const filter: JobsFilter = useMemo(() => toFilter(values, minute), [values, minute]);
  const after = values["after"];
  // The stopped search, identified by its filter.
  const name = JSON.stringify([filter, after]);
  const stopped = useRef<string>(undefined);
  const response = useJobs({ ...filter, after, limit: pageSize }, () => stopped.current === name);

  // Cursors only lead to older pages. Newer pages are remembered here; from a page opened by its URL, the way back leads to the
  // newest page.
  const [trail, setTrail] = useState<readonly string[]>([]);
  const next = response.isPlaceholderData ? null : (response.data?.next ?? null);
  const older =
    next === null
      ? undefined
      : () => {
          setTrail((before) => [...before, after ?? ""]);
          go(next);
        };
  const newer =
    after === undefined
      ? undefined
      : () => {
          go(trail.at(-1) || undefined);
          setTrail((before) => before.slice(0, -1));
        };
  const page = response.isPlaceholderData ? undefined : response.data;
  const search: Search | undefined =
    page?.partial === true
      ? {
          progress: page.search,
          reached: page.next,
          stop: page.searching ? () => (stopped.current = name) : undefined,
        }
      : undefined;
  return { filter, response, older, newer, search };
}

/** An unfinished search. */
export type Search = {
  readonly progress: { readonly searched: number; readonly of: number } | null;
  /** The id below which nothing was searched yet. */
  readonly reached: string | null;
  /** Undefined once stopped. */
  readonly stop: (() => void) | undefined;
};
