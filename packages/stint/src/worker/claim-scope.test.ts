import { expect, test } from "vitest";
import { QueueMap } from "../model/queue-pattern.ts";
import { ClaimScope } from "./claim-scope.ts";

const scope = (): ClaimScope =>
  new ClaimScope({ kinds: ["charge", "mail"], queues: ["main", "tenant-*", "slow"] });

test("without exclusions a claim asks for every kind and queue the worker serves", () => {
  const all = scope();
  expect(all.kinds).toEqual(["charge", "mail"]);
  expect([all.queues, all.patterns]).toEqual([["main", "slow"], ["tenant-*"]]);
  expect([all.isEmpty, all.excludes("main")]).toEqual([false, false]);
});

test("exclusions of several sources add up, and end when their sources end them", () => {
  const some = scope();
  const first = new Set<string>();
  const second = new Set<string>();
  some.exclude({ kinds: () => first });
  some.exclude({ kinds: () => second });
  expect(some.kinds).toEqual(["charge", "mail"]);
  first.add("charge");
  expect([some.kinds, some.isEmpty]).toEqual([["mail"], false]);
  second.add("mail");
  expect([some.kinds, some.isEmpty]).toEqual([[], true]);
  first.clear();
  expect([some.kinds, some.isEmpty]).toEqual([["charge"], false]);
});

test("an excluded queue is left out by name, also one that only a pattern serves", () => {
  const some = scope();
  const paused = new QueueMap([
    ["slow", true],
    ["tenant-7", true],
  ]);
  some.exclude({ queues: () => paused });

  expect(some.queues).toEqual(["main"]);
  expect(["main", "slow", "tenant-7", "tenant-8"].map((queue) => some.excludes(queue))).toEqual([
    false,
    true,
    true,
    false,
  ]);
});

test("a scope is empty while some source excludes everything", () => {
  const some = scope();
  let closed = true;
  some.exclude({ everything: () => closed });
  expect(some.isEmpty).toBe(true);
  closed = false;
  expect(some.isEmpty).toBe(false);
});
