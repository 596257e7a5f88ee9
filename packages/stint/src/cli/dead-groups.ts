import type { DeadGroups } from "../inspect/types.ts";
import { formatCount } from "../model/figures.ts";
import type { DeadGroup } from "../sql/dead-groups.ts";
import { count } from "./figures.ts";
import { age } from "./job-text.ts";
import type { Column } from "./table.ts";

/** Groups of dead jobs, one row per error. */
export const deadGroupColumns: readonly Column<DeadGroup>[] = [
  { title: "JOBS", cell: (row) => count(row.count, "red"), align: "right" },
  { title: "KIND", cell: (row) => row.kind, most: 30 },
  { title: "LATEST", cell: (row) => age(row.newest) },
  { title: "ONE OF THEM", cell: (row) => row.example, leaves: 1 },
  { title: "FINGERPRINT", cell: (row) => row.fingerprint },
  { title: "ERROR", cell: (row) => row.error, most: 100 },
];

/** What the groups leave out; nothing where they are all there is. */
export function leftOut({ others, of }: DeadGroups): string | undefined {
  const parts = [
    ...(others > 0 ? [`${formatCount(others)} more died of other errors.`] : []),
    ...(of.capped ? [`Of the newest ${formatCount(of.count)} dead jobs.`] : []),
  ];
  return parts.length === 0 ? undefined : parts.join(" ");
}
