import { expect, test } from "vitest";
import { SeriesDelta } from "./series-delta.ts";
import { Meter } from "./meter.ts";

function counted(): { meter: Meter; delta: SeriesDelta } {
  const meter = new Meter();
  return { meter, delta: new SeriesDelta(meter) };
}

test("counts marked as sent are not sent again; others are", () => {
  const { meter, delta } = counted();
  const kind = meter.of("a", "mail");
  kind.claimed = 3;
  kind.run.add(4);
  const first = delta.take();
  kind.claimed = 5;
  const second = delta.take();
  second.markSent();
  kind.succeeded = 1;

  expect(first.rows).toMatchObject([{ queue: "a", kind: "mail", claimed: 3, runMs: 4 }]);
  expect(second.rows).toMatchObject([{ claimed: 5, runMs: 4 }]);
  expect(delta.take().rows).toEqual([{ queue: "a", kind: "mail", succeeded: 1 }]);
});

test("counts that arrive during a flush go into the next flush", () => {
  const { meter, delta } = counted();
  const kind = meter.of("a", "mail");
  kind.claimed = 1;
  const { markSent } = delta.take();
  kind.claimed = 4;
  markSent();

  expect(delta.take().rows).toEqual([{ queue: "a", kind: "mail", claimed: 3 }]);
});

test("a meter without new counts has no delta", () => {
  const { meter, delta } = counted();
  meter.of("a", "mail");
  expect(delta.any).toBe(false);
  expect(delta.take()).toMatchObject({ rows: [], tenants: [] });
  meter.of("a", "mail").rescued = 1;
  expect(delta.any).toBe(true);
});

test("the twenty busiest tenants are sent once", () => {
  const { meter, delta } = counted();
  for (let n = 1; n <= 30; n++) for (let times = 0; times < n; times++) meter.tenants.add(`t${n}`, 2);
  const { tenants } = delta.take();

  expect(tenants).toHaveLength(20);
  expect(tenants[0]).toEqual({ tenant: "t30", ended: 30, run_ms: 60 });
  expect(delta.take().tenants).toEqual([]);
});

test("the busiest tenants are kept among 20,000 rare ones", () => {
  const { meter, delta } = counted();
  for (let n = 0; n < 20_000; n++) {
    meter.tenants.add(`rare-${n}`, 1);
    meter.tenants.add(`busy-${n % 5}`, 1);
  }
  const { tenants } = delta.take();

  expect(
    tenants
      .slice(0, 5)
      .map(({ tenant }) => tenant)
      .sort(),
  ).toEqual(["busy-0", "busy-1", "busy-2", "busy-3", "busy-4"]);
  expect(tenants[0]?.ended).toBe(4_000);
});

test("the longest wait is sent until it is marked as sent", () => {
  const { meter, delta } = counted();
  const kind = meter.of("a", "mail");
  kind.wait.add(300);
  kind.wait.add(20);
  expect(delta.take().rows).toMatchObject([{ longestWaitMs: 300 }]);
  const { rows, markSent } = delta.take();
  expect(rows).toMatchObject([{ longestWaitMs: 300 }]);
  kind.wait.add(7);
  markSent();
  expect(delta.take().rows).toMatchObject([{ longestWaitMs: 7 }]);
});
