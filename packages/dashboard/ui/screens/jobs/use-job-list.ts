import { useMemo, useState } from "react";
import type { JobsFilter } from "../../api.ts";
import { useNow } from "../../components/age.tsx";
import type { FilterValues } from "../../components/filter-bar.tsx";
import { useJobs } from "../../queries.ts";
import { toFilter } from "./search.ts";

export const pageSize = 50;

/** The page of jobs that an address asks for, and the way to the pages beside it. */
export function useJobList(values: FilterValues, go: (after: string | undefined) => void) {
  // To the minute, or "the last hour" would be another question every second.
  const minute = useNow(60);
  const filter: JobsFilter = useMemo(() => toFilter(values, minute), [values, minute]);
  const after = values["after"];
  const answer = useJobs({ ...filter, after, limit: pageSize });

  // Pages are only linked forwards. The way back is remembered here; from a page that was opened by its address it leads to the
  // newest one.
  const [trail, setTrail] = useState<readonly string[]>([]);
  const next = answer.isPlaceholderData ? null : (answer.data?.next ?? null);
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
  return { filter, answer, older, newer, partial: answer.data?.partial === true };
}
