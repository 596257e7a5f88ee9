/** Searches until a page of jobs is full or every job was searched. Each request has its own time budget. */
import type { JobPage } from "stint/inspect";
import { api, type JobsFilter, type Wire } from "../../api.ts";

export type JobsQuestion = JobsFilter & { after?: string | undefined; limit: number };

export type SearchedPage = Wire<JobPage> & {
  /** Jobs searched so far, and the approximate total; null if the first request was enough. */
  readonly search: { readonly searched: number; readonly of: number } | null;
  /** The search still runs. */
  readonly searching: boolean;
  readonly tookMs: number;
  readonly at: number;
};

export async function searchJobs(
  question: JobsQuestion,
  {
    signal,
    isStopped,
    report,
  }: {
    signal: AbortSignal;
    /** Checked between requests: the user may have stopped the search. */
    isStopped: () => boolean;
    /** What was found so far. */
    report: (soFar: SearchedPage) => void;
  },
): Promise<SearchedPage> {
  const began = Date.now();
  let page = await api.jobs(question, signal);
  let search = null as SearchedPage["search"];
  const toPage = (searching: boolean): SearchedPage => {
    const at = Date.now();
    return { ...page, search, searching, tookMs: at - began, at };
  };
  for (;;) {
    if (page.progress !== undefined)
      search = { searched: (search?.searched ?? 0) + page.progress.searched, of: page.progress.of };
    if (!page.partial || page.next === null || isStopped()) return toPage(false);
    report(toPage(true));
    const { jobs, next: after } = page;
    const further = await api.jobs({ ...question, after, limit: question.limit - jobs.length }, signal);
    page = { ...further, jobs: [...jobs, ...further.jobs] };
  }
}

/** Limits how often a long search is repeated: at most a tenth of the time is spent searching. */
export function isRecent(page: SearchedPage | undefined): boolean {
  if (page === undefined || page.search === null) return false;
  return Date.now() - page.at < Math.min(60_000, 10 * page.tookMs);
}
