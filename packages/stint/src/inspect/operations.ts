import { withRetry } from "../client/retry.ts";
import type { Db } from "../db/db.ts";
import { InvalidOptionError, TooManyOperationsError } from "../errors.ts";
import { describe } from "../model/describe.ts";
import { checkText } from "../model/names.ts";
import { refuseUnknownKeys, requireInteger } from "../model/options.ts";
import { newId } from "../runtime/new-id.ts";
import { isUuid } from "../runtime/uuid.ts";
import {
  abortOperation,
  beginOperation,
  databaseNow,
  findOperation,
  latestOperations,
  mostOperations,
  type StoredOperation,
} from "../sql/operations.ts";
import { toActionSearch } from "./filter.ts";
import { runOperation } from "./run-operation.ts";
import type { Inspector, JobFilter, Operation, PreviewedSet } from "./types.ts";
import { countMatches } from "./tallied.ts";
import { findPage } from "./bounded-search.ts";

export type OperationsInspector = Pick<
  Inspector,
  "preview" | "begin" | "operations" | "operation" | "abort"
> & { stop(): Promise<void> };

/** Notifies workers of jobs that became ready or were cancelled. */
export type Wake = (hint: string) => void;

const samples = 10;

/** Bulk cancel, run now and replay. */
export function inspectOperations(db: Db, wake: Wake): OperationsInspector {
  const stopping = new AbortController();
  const running = new Set<Promise<void>>();

  const find = async (id: string): Promise<Operation | undefined> => {
    const found = isUuid(id) ? await withRetry(db, (run) => findOperation(run, id)) : undefined;
    return found === undefined ? undefined : toOperation(found);
  };

  return {
    async preview(action, filter) {
      const search = toActionSearch(action, filter);
      // Read first: no job is acted on later that was not counted here.
      const asOf = await withRetry(db, databaseNow);
      const matched = await withRetry(db, (run) => countMatches(run, search));
      const { jobs } = await withRetry(db, (run) => findPage(run, search, samples));
      return { matched, sample: jobs, asOf };
    },

    async begin(action, filter, options) {
      const search = toActionSearch(action, filter);
      refuseUnknownKeys("begin", options, ["reason", "actor", "preview"]);
      const { reason, actor } = options as { reason?: unknown; actor?: unknown };
      if (reason === undefined)
        throw new InvalidOptionError(
          "begin.reason",
          "is required: say why, for the people who read the audit later",
        );
      const audit = { reason: checkText(reason, "begin.reason"), actor: checkText(actor, "begin.actor") };
      // Jobs that come from the preview on, or from here on, are not touched: the walk goes down from the newest, and by the clock of the
      // database it leaves out those that came later, whatever their ids.
      const preview = options.preview === undefined ? undefined : checkPreview(options.preview);
      const matched = preview?.matched ?? (await withRetry(db, (run) => countMatches(run, search)));
      const noted = {
        id: newId(),
        action,
        filter: { ...filter },
        ...audit,
        matched: matched.count,
        matchedCapped: matched.capped,
        cursor: search.before,
        asOf: preview?.asOf ?? null,
      };
      const operation = await withRetry(db, (run) => beginOperation(run, noted));
      if (operation === undefined) throw new TooManyOperationsError(mostOperations);
      const work = runOperation({ db, operation, search, wake, signal: stopping.signal });
      running.add(work);
      void work.finally(() => running.delete(work));
      return toOperation(operation);
    },

    async operations() {
      return (await withRetry(db, latestOperations)).map(toOperation);
    },

    operation: find,

    async abort(id) {
      if (!isUuid(id)) return undefined;
      await withRetry(db, (run) => abortOperation(run, id));
      return await find(id);
    },

    /** Abandon the running operations. */
    async stop() {
      stopping.abort();
      await Promise.all(running);
    },
  };
}

/** The format of `asOf`: UTC, with all digits of the database. */
const moment = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z$/;

function checkPreview(preview: PreviewedSet): PreviewedSet {
  refuseUnknownKeys("begin.preview", preview, ["matched", "asOf"]);
  const { asOf, matched } = preview as {
    asOf?: unknown;
    matched?: { count?: unknown; capped?: unknown };
  };
  if (typeof asOf !== "string" || !moment.test(asOf) || Number.isNaN(Date.parse(asOf)))
    throw new InvalidOptionError(
      "begin.preview.asOf",
      `must be the asOf of a preview, got ${describe(asOf)}`,
    );
  const count = requireInteger("begin.preview.matched.count", matched?.count, { min: 0, max: 2 ** 31 - 1 });
  return { asOf, matched: { count, capped: matched?.capped === true } };
}

function toOperation(stored: StoredOperation): Operation {
  const { id, action, filter, reason, actor, state, createdAt, endedAt, done, skipped, error } = stored;
  const isCounted = state === "finished" && !stored.matchedCapped;
  return {
    id,
    action,
    filter: toFilter(filter),
    reason,
    actor,
    state,
    createdAt,
    endedAt,
    matched: { count: stored.matched, capped: stored.matchedCapped },
    done,
    skipped,
    changed: isCounted ? Math.max(0, stored.matched - done) : null,
    ...(error === null ? {} : { error }),
  };
}

/** JSON has no dates. */
function toFilter({ since, until, ...rest }: Readonly<Record<string, unknown>>): JobFilter {
  return {
    ...rest,
    ...(typeof since === "string" ? { since: new Date(since) } : {}),
    ...(typeof until === "string" ? { until: new Date(until) } : {}),
  };
}
