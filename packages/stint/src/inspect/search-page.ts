import type { Run } from "../db/db.ts";
import type { Search } from "../sql/search.ts";
import { size } from "../sql/size.ts";
import { isNewest } from "./filter.ts";
import { mostFound } from "./tallied.ts";
import type { JobPage } from "./types.ts";
import { findPage, type Budget } from "./bounded-search.ts";

/** A page of jobs. A search out of budget is complete if the tallies show that no more jobs match; otherwise it reports its progress. */
export async function searchPage(db: Run, search: Search, limit: number, budget?: Budget): Promise<JobPage> {
  const { searched = 0, ...page } = await findPage(db, search, limit, budget);
  if (!page.partial) return page;
  const most = await mostFound(db, search);
  if (most === page.jobs.length && (most === 0 || isNewest(search)))
    return { jobs: page.jobs, next: null, partial: false };
  const has = (...states: Search["states"][number][]): boolean =>
    states.some((state) => search.states.includes(state));
  const of = await size(db, {
    live: has("scheduled", "ready", "running", "retrying", "parked"),
    done: has("succeeded", "cancelled"),
    dead: has("dead"),
  });
  return { ...page, progress: { searched, of: Math.max(of, searched) } };
}
