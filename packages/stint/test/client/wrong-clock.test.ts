import { expect, onTestFinished, test } from "vitest";
import { Enqueuer } from "#stint/client/enqueue.js";
import { Jobs } from "#stint/client/jobs.js";
import type { ServerClock } from "#stint/db/server-clock.js";
import { UnknownOutcomeError } from "#stint/index.js";
import { newId } from "#stint/runtime/new-id.js";
import { checkSchemaVersion } from "#stint/sql/schema-version.js";
import type { EncodedRow } from "#stint/sql/enqueue.js";
import { startCutProxy } from "../support/cut-proxy.ts";
import { wrongClock } from "../support/database-time.ts";
import { type Fresh, freshSchema, openDb } from "../support/fresh.ts";

const hourMs = 3_600_000;

function rows(count: number): EncodedRow[] {
  return Array.from({ length: count }, () => ({
    row: { id: newId(), kind: "work", queue: "main" },
    payload: "{}",
    meta: undefined,
  }));
}

/** Enqueues with an estimate of the server's clock that is wrong by so much. */
function enqueuer(fresh: Fresh, url: string, wrongByMs: number): { enqueuer: Enqueuer; clock: ServerClock } {
  const clock = wrongClock(wrongByMs);
  const db = openDb(url, fresh.schema, clock);
  onTestFinished(() => db.close());
  const made = new Enqueuer({
    db,
    lockWaitDb: db,
    ready: async () => undefined,
    wakes: () => false,
    onEnqueued: () => undefined,
  });
  return { enqueuer: made, clock };
}

test.each([-hourMs, -10_000, 10_000, hourMs])(
  "an enqueue succeeds with a clock that is wrong by %d ms",
  async (wrongByMs) => {
    const fresh = await freshSchema();
    const { enqueuer: made, clock } = enqueuer(fresh, fresh.url, wrongByMs);
    const [row] = rows(1);
    await made.one(row!);
    await made.send(rows(2_100));

    expect(await fresh.sql("select from stint.job")).toHaveLength(2_101);
    // Too early is noticed at once. Too late does no harm as long as nothing is lost.
    expect(clock.nowMs() - Date.now()).toBeGreaterThan(-60_000);
  },
);

test("a lost enqueue with a distant deadline is unknown until a stated time", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const { enqueuer: made } = enqueuer(fresh, proxy.url, hourMs);
  const [row] = rows(1);
  const cut = proxy.cutAt("/* stint:enqueue", "unsent");
  const [result] = await made.sendApart([row!]);
  await cut;

  expect(result).toBeInstanceOf(UnknownOutcomeError);
  const { mayHappenUntil, message, jobIds } = result as UnknownOutcomeError;
  expect(jobIds).toEqual([row!.row.id]);
  expect(mayHappenUntil!.getTime()).toBeGreaterThan(Date.now() + hourMs / 2);
  expect(message).toContain(mayHappenUntil!.toISOString());
  expect(await fresh.sql("select from stint.jobs")).toEqual([]);
});

test("a late cancel changes nothing even if the client's clock is an hour ahead", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const [row] = rows(1);
  await enqueuer(fresh, fresh.url, 0).enqueuer.one(row!);
  const db = openDb(proxy.url, fresh.schema, wrongClock(hourMs));
  onTestFinished(() => db.close());
  const ready = async (): Promise<void> => await checkSchemaVersion(db, fresh.schema);
  const refuse = (): Promise<never> => Promise.reject(new Error("nothing is encoded here"));
  const encoders = { encodePayload: refuse, encodeResult: refuse };
  const jobs = new Jobs(db, { actor: "tester", wake: () => undefined, ready, encoders });
  const held = proxy.holdAt("/* stint:cancel */");
  const cancelled = jobs.cancel(row!.row.id, {}).catch((error: unknown) => error);
  const late = await held;
  late.resetClient();

  expect(await cancelled).toBeInstanceOf(UnknownOutcomeError);
  await late.release();
  expect(await fresh.sql("select state from stint.job")).toEqual([{ state: "ready" }]);
});
