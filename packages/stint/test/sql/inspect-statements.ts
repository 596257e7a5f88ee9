import type { Run } from "#stint/db/db.js";
import { toSearch } from "#stint/inspect/filter.js";
import { newId } from "#stint/runtime/new-id.js";
import { deadGroups } from "#stint/sql/dead-groups.js";
import { closeJob, surroundings } from "#stint/sql/explain-job.js";
import { flowPlace } from "#stint/sql/flow-place.js";
import { actOnMany } from "#stint/sql/operate-many.js";
import {
  abortOperation,
  beginOperation,
  databaseNow,
  endOperation,
  findOperation,
  latestOperations,
  progressOperation,
} from "#stint/sql/operations.js";
import { countGather, countWalk, gather, walk } from "#stint/sql/search.js";
import { size } from "#stint/sql/size.js";
import { waitingTenants } from "#stint/sql/waiting-tenants.js";

const id = newId();
const search = toSearch("search", {
  kind: "work",
  queue: "a",
  key: "k",
  tag: "t",
  error: "e",
  fingerprint: "0123456789ab",
  tenant: "x",
});
const few = { key: true, running: true, parked: true, due: true, ready: true };
const batch = {
  ids: [id],
  auditIds: [newId()],
  states: search.states,
  until: "2026-01-01",
  actor: "tester",
  reason: "because",
};

/** What looking at jobs and acting on many of them sends. */
export const inspectCalls: Record<string, (db: Run) => Promise<unknown>> = {
  walk: (db) => walk(db, search, { rows: 1_000, limit: 50 }),
  countWalk: (db) => countWalk(db, search, { rows: 1_000 }),
  databaseNow,
  size: (db) => size(db, { live: true, done: true, dead: true }),
  gather: (db) => gather(db, search, few, { most: 10_000, limit: 50 }),
  countGather: (db) => countGather(db, search, few, { most: 10_000 }),
  deadGroups: (db) => deadGroups(db, { kind: "work", queue: "a", most: 1_000, groups: 100 }),
  waitingTenants: (db) => waitingTenants(db, { most: 1_000, tenants: 20 }),
  closeJob: (db) => closeJob(db, id),
  flowPlace: (db) => flowPlace(db, id),
  surroundings: (db) =>
    surroundings(db, { id, queue: "a", kind: "work", worker: "w", tenant: "acme", key: "k" }),
  cancelMany: (db) => actOnMany(db, "cancel", batch),
  runManyNow: (db) => actOnMany(db, "run-now", batch),
  replayMany: (db) => actOnMany(db, "replay", batch),
  beginOperation: (db) =>
    beginOperation(db, {
      id: newId(),
      action: "cancel",
      filter: {},
      reason: "because",
      actor: "tester",
      matched: 1,
      matchedCapped: false,
      cursor: id,
      asOf: null,
    }),
  progressOperation: (db) => progressOperation(db, id, { done: 1, skipped: 0, cursor: id }),
  endOperation: (db) => endOperation(db, id, "finished"),
  abortOperation: (db) => abortOperation(db, id),
  findOperation: (db) => findOperation(db, id),
  latestOperations: (db) => latestOperations(db),
};
