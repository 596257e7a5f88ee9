import { withRetry } from "../client/retry.ts";
import { requireId } from "../client/ids.ts";
import { readSteps } from "../client/steps.ts";
import type { Db } from "../db/db.ts";
import { attemptNumbers } from "../model/attempt-number.ts";
import { checkNameOrPattern } from "../model/name-pattern.ts";
import { refuseUnknownKeys, requireInteger } from "../model/options.ts";
import { isStalled } from "../model/slow.ts";
import { isTerminal } from "../model/state.ts";
import { auditOf, replaysIn, type AuditEntry } from "../sql/audit.ts";
import { deadGroups } from "../sql/dead-groups.ts";
import { closeJob, surroundings, type CloseJob, type Surroundings } from "../sql/explain-job.ts";
import { jobFlow } from "../sql/flows.ts";
import { earlier, toBefore, toSearch } from "./filter.ts";
import type { OverviewInspector } from "./overview.ts";
import { timeline } from "./timeline.ts";
import { jobFilterKeys, type Explanation, type Inspector, type Percentiles } from "./types.ts";
import { searchPage } from "./search-page.ts";
import { countMatches } from "./tallied.ts";
import type { Budget } from "./bounded-search.ts";
import { flowPlace } from "../sql/flow-place.ts";
import { explain } from "./why.ts";

export type JobsInspector = Pick<Inspector, "jobs" | "count" | "deadGroups" | "job" | "why">;

/** Dead jobs examined for groups, and groups returned. */
const mostDead = 10_000;
const mostGroups = 100;

const noSurroundings: Surroundings = {
  workers: [],
  ahead: 0,
  suspects: 0,
  pauses: [],
  places: [],
  defers: null,
};
const unknown: Percentiles = { p50: null, p95: null, p99: null };

/** Searches jobs and shows one in detail. */
export function inspectJobs(
  db: Db,
  overview: Pick<OverviewInspector, "kinds">,
  budget?: Budget,
): JobsInspector {
  const normalOf = async (kind: string): Promise<Percentiles> =>
    (await overview.kinds()).find((view) => view.kind === kind)?.run ?? unknown;

  const explainFrom = async (
    seen: CloseJob,
    audit: readonly AuditEntry[],
    normal: Percentiles,
  ): Promise<Explanation> => {
    const around = isTerminal(seen.job.state)
      ? noSurroundings
      : await withRetry(db, (run) => surroundings(run, seen.job));
    const flow = await withRetry(db, (run) => flowPlace(run, seen.job.id));
    return explain({ ...seen, schema: db.schema, around, audit, flow, p95Ms: normal.p95 });
  };

  return {
    async jobs(options) {
      const { after, limit: size, ...filter } = options;
      refuseUnknownKeys("jobs", options, [...jobFilterKeys, "after", "limit"]);
      const limit = requireInteger("jobs.limit", size ?? 50, { min: 1, max: 1000 });
      const search = toSearch("jobs", filter);
      const before = after === undefined ? search.before : earlier(search.before, toBefore(after));
      return await withRetry(db, (run) => searchPage(run, { ...search, before }, limit, budget));
    },

    async count(options) {
      const { after, ...filter } = options;
      const search = toSearch("count", filter);
      const below = after === undefined ? undefined : earlier(search.before, toBefore(after, "count.after"));
      return await withRetry(db, (run) => countMatches(run, search, below, budget));
    },

    async deadGroups(filter = {}) {
      refuseUnknownKeys("deadGroups", filter, ["kind", "queue"]);
      const kind = filter.kind === undefined ? null : checkNameOrPattern(filter.kind, "deadGroups.kind");
      const queue = filter.queue === undefined ? null : checkNameOrPattern(filter.queue, "deadGroups.queue");
      const wanted = { kind, queue, most: mostDead, groups: mostGroups };
      const { groups, matched, lookedAt } = await withRetry(db, (run) => deadGroups(run, wanted));
      const shown = groups.reduce((sum, { count }) => sum + count, 0);
      return { groups, others: matched - shown, of: { count: lookedAt, capped: lookedAt === mostDead } };
    },

    async job(id) {
      const wanted = requireId(id);
      const [seen, audit, remembered, flow] = await Promise.all([
        withRetry(db, (run) => closeJob(run, wanted)),
        withRetry(db, (run) => auditOf(run, wanted)),
        readSteps(db, wanted),
        withRetry(db, (run) => jobFlow(run, wanted)),
      ]);
      if (seen === undefined) return undefined;
      const run = await normalOf(seen.job.kind);
      return {
        job: seen.job,
        leaseId: seen.leaseId,
        attemptOfEpoch: attemptNumbers(seen.job, replaysIn(audit)),
        timeline: timeline(seen, audit),
        audit,
        why: await explainFrom(seen, audit, run),
        run,
        traceId: traceIdOf(seen.job.meta),
        ...remembered,
        stalledMs: isStalled(seen.quietMs, seen.stallAfterMs) ? seen.quietMs : null,
        flow: flow ?? null,
      };
    },

    async why(id) {
      const wanted = requireId(id);
      const [seen, audit] = await Promise.all([
        withRetry(db, (run) => closeJob(run, wanted)),
        withRetry(db, (run) => auditOf(run, wanted)),
      ]);
      if (seen === undefined) return undefined;
      // Only a running job is compared with its kind.
      const normal = seen.job.state === "running" ? await normalOf(seen.job.kind) : unknown;
      return await explainFrom(seen, audit, normal);
    },
  };
}

const traceparent = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}/;

/** The trace id of the enqueue, if it was traced. */
function traceIdOf(meta: Readonly<Record<string, unknown>>): string | null {
  const trace = meta["trace"] as { traceparent?: unknown } | null | undefined;
  return typeof trace?.traceparent === "string" ? (traceparent.exec(trace.traceparent)?.[1] ?? null) : null;
}
