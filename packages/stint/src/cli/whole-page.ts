import type { Inspector, JobFilter, JobPage } from "../inspect/types.ts";
import { formatCount } from "../model/figures.ts";
import { say, type Output } from "./output.ts";
import { onStopSignals } from "./stop-signals.ts";

type Wanted = JobFilter & { after?: string; limit?: number };

const usualLimit = 50;

/**
 * A page of jobs. Each request of a search has a budget; this one continues until the page is full or every job was searched, and
 * reports its progress. A stop signal ends the search with what was found until then.
 */
export async function wholePage(
  out: Pick<Output, "note">,
  inspector: Pick<Inspector, "jobs">,
  wanted: Wanted,
): Promise<JobPage> {
  const { limit = usualLimit } = wanted;
  const stop = new AbortController();
  const stopListening = onStopSignals(() => stop.abort());
  try {
    let page = await inspector.jobs(wanted);
    let searched = 0;
    while (page.partial && page.next !== null && !stop.signal.aborted) {
      const { jobs, next: after, progress } = page;
      searched += progress?.searched ?? 0;
      if (progress !== undefined)
        out.note(
          say`Searched ${formatCount(searched)} of about ${formatCount(Math.round(progress.of))} jobs …`,
        );
      const further = await inspector.jobs({ ...wanted, after, limit: limit - jobs.length });
      page = { ...further, jobs: [...jobs, ...further.jobs] };
    }
    return page;
  } finally {
    stopListening();
  }
}
