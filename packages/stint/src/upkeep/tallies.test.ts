import { expect, onTestFinished, test, vi } from "vitest";
import type { Db, Row } from "../db/db.ts";
import { ServerClock } from "../db/server-clock.ts";
import { silentLogger } from "../runtime/logger.ts";
import { Meter } from "../telemetry/meter.ts";
import { tallies as talliesService } from "./tallies.ts";

type Sent = { readonly name: string; readonly values: readonly unknown[] };

/** The columns that a flush returns. */
const flushed: Row = { runs: null, now_ms: 0 };

function tallies(respond: (sent: Sent) => Promise<Row[]>): {
  made: ReturnType<(typeof talliesService)["create"]>;
  meter: Meter;
} {
  const meter = new Meter();
  const db: Db = {
    schema: "stint",
    clock: new ServerClock(),
    run: async ({ name }, values) => await respond({ name, values }),
    transaction: () => Promise.reject(new Error("not asked for")),
    close: async () => undefined,
  };
  const made = talliesService.create({
    db,
    worker: { id: "w", host: "h", pid: 1, version: "v", pools: {}, kinds: ["mail"] },
    meter,
    vitals: () => ({ busy: 0, slots: 1, waiting: 0, lagMs: 0, rssBytes: 0 }),
    onRunBaseline: () => undefined,
    logger: silentLogger,
  });
  return { made, meter };
}

test("a worker that stops during a flush does not send the same counters again", async () => {
  const claims: unknown[] = [];
  let release = (): void => undefined;
  const { made, meter } = tallies(async ({ values }) => {
    claims.push(...(JSON.parse(values[2] as string) as { claimed: number }[]).map(({ claimed }) => claimed));
    await new Promise<void>((resolve) => (release = resolve));
    return [flushed];
  });
  meter.of("main", "mail").claimed = 5;
  const slow = made.flush();
  const last = made.flush();
  release();
  await Promise.all([slow, last]);

  expect(claims).toEqual([5]);
});

test("a claim after another worker's fold is folded at the next flush, once", async () => {
  let folds = 0;
  const { made, meter } = tallies(async ({ name }) => {
    if (name === "fold") folds += 1;
    return [{ ...flushed, folded: null }];
  });
  made.service.start();
  onTestFinished(async () => await made.service.stop());
  const beats = async (count: number): Promise<void> => {
    for (let n = 0; n < count; n += 1) {
      made.service.wakeIn(0);
      // Everything that a tick waits for has completed by then.
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  // As it starts.
  await beats(6);
  expect(folds).toBe(1);
  meter.of("main", "mail").claimed = 1;
  await beats(6);
  expect(folds).toBe(3);
});

test("a failed fold is retried without the sample that may have taken too long", async () => {
  let passedMs = 0;
  const clock = performance.now.bind(performance);
  const spy = vi.spyOn(performance, "now").mockImplementation(() => clock() + passedMs);
  onTestFinished(() => spy.mockRestore());
  const samples: unknown[] = [];
  let done = (): void => undefined;
  const second = new Promise<void>((resolve) => (done = resolve));
  const { made } = tallies(async ({ name, values }) => {
    if (name !== "fold") return [flushed];
    samples.push(values[1]);
    if (samples.length > 1) {
      done();
      return [{ folded: 1 }];
    }
    // Longer than samples may take at once.
    passedMs += 200;
    throw new Error("canceling statement due to statement timeout");
  });
  made.onIdleCheck(0, "");
  made.service.start();
  onTestFinished(async () => await made.service.stop());
  await second;

  expect(samples).toEqual([true, false]);
});
