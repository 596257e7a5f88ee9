import { expect, test } from "vitest";
import { Increments } from "./increments.ts";
import { Meter } from "./meter.ts";

function counted(): { meter: Meter; increments: Increments } {
  const meter = new Meter();
  return { meter, increments: new Increments(meter) };
}

test("what was told is not told again, what was not is", () => {
  const { meter, increments } = counted();
  const kind = meter.of("a", "mail");
  kind.claimed = 3;
  kind.run.add(4);
  const first = increments.take();
  kind.claimed = 5;
  const second = increments.take();
  second.told();
  kind.succeeded = 1;

  expect(first.increment.rows).toMatchObject([{ queue: "a", kind: "mail", claimed: 3, run_ms: 4 }]);
  expect(second.increment.rows).toMatchObject([{ claimed: 5, run_ms: 4 }]);
  expect(increments.take().increment.rows).toEqual([{ queue: "a", kind: "mail", succeeded: 1 }]);
});

test("what is counted while it is on its way is for the next time", () => {
  const { meter, increments } = counted();
  const kind = meter.of("a", "mail");
  kind.claimed = 1;
  const { told } = increments.take();
  kind.claimed = 4;
  told();

  expect(increments.take().increment.rows).toEqual([{ queue: "a", kind: "mail", claimed: 3 }]);
});

test("where nothing happened there is nothing to tell", () => {
  const { meter, increments } = counted();
  meter.of("a", "mail");
  expect(increments.any).toBe(false);
  expect(increments.take().increment).toEqual({ rows: [], tenants: [] });
  meter.of("a", "mail").rescued = 1;
  expect(increments.any).toBe(true);
});

test("the twenty busiest tenants are told, once", () => {
  const { meter, increments } = counted();
  for (let n = 1; n <= 30; n++) for (let times = 0; times < n; times++) meter.tenants.add(`t${n}`, 2);
  const { tenants } = increments.take().increment;

  expect(tenants).toHaveLength(20);
  expect(tenants[0]).toEqual({ tenant: "t30", ended: 30, run_ms: 60 });
  expect(increments.take().increment.tenants).toEqual([]);
});

test("however many tenants there are, the busy ones are kept", () => {
  const { meter, increments } = counted();
  for (let n = 0; n < 20_000; n++) {
    meter.tenants.add(`rare-${n}`, 1);
    meter.tenants.add(`busy-${n % 5}`, 1);
  }
  const { tenants } = increments.take().increment;

  expect(
    tenants
      .slice(0, 5)
      .map(({ tenant }) => tenant)
      .sort(),
  ).toEqual(["busy-0", "busy-1", "busy-2", "busy-3", "busy-4"]);
  expect(tenants[0]?.ended).toBe(4_000);
});

test("the longest wait is told once, and again if it was not told", () => {
  const { meter, increments } = counted();
  const kind = meter.of("a", "mail");
  kind.wait.add(300);
  kind.wait.add(20);
  expect(increments.take().increment.rows).toMatchObject([{ longest_wait_ms: 300 }]);
  const { increment, told } = increments.take();
  expect(increment.rows).toMatchObject([{ longest_wait_ms: 300 }]);
  kind.wait.add(7);
  told();
  expect(increments.take().increment.rows).toMatchObject([{ longest_wait_ms: 7 }]);
});
