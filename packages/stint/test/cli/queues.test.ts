import { expect, test } from "vitest";
import { defineJob, typed } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { jsonOf, stintOn } from "./support.ts";

const pay = defineJob("pay", { queue: "payments", payload: typed<object>() });

test("queues set changes a target live, and list and show print its source", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  await fresh.client().enqueue(pay, {});
  const before = await run("queues");
  const set = await run("queues", "set", "payments", "--target-age", "30s", "--reason", "promised");
  const list = await run("queues", "list");
  const show = await run("queues", "show", "payments");

  expect(before.stdout).toMatch(/TARGET.*\n.* 5 min /);
  expect(set).toMatchObject({
    code: 0,
    stdout: "The target age of payments is now 30 s (live change).\n",
    stderr: "",
  });
  expect(list.stdout).toMatch(/30 s \(live\)/);
  expect(show.stdout).toMatch(/Target age +30 s \(live change\)/);
  expect(show.stdout).toMatch(/set-queue .* cli:\S+ +default → 30 s +promised/);
});

test("queues set with `declared` returns to the value in code", async () => {
  const fresh = await freshSchema();
  await fresh.sql(
    `insert into stint.queue (name, target_age_ms, declared_target_age_ms, updated_by) values ('*', 1000, 60000, 'x')`,
  );
  const set = await stintOn(fresh)("queues", "set", "*", "--target-age", "declared", "--reason", "over");

  expect(set.stdout).toBe("The target age of * is now 1 min (declared in code).\n");
});

test("queues show of a queue that a pattern decides names the pattern", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  await fresh.client().enqueue(pay, {});
  await run("queues", "set", "pay*", "--target-age", "2m", "--reason", "all of them");

  expect((await run("queues", "show", "payments")).stdout).toMatch(
    /Target age +2 min \(live change of pay\*\)/,
  );
  expect(jsonOf(await run("queues", "show", "payments", "--json"))).toMatchObject({
    queue: "payments",
    setting: null,
    health: { targetMs: 120_000, targetFrom: { source: "live", setFor: "pay*" } },
  });
});

test("queues set of a misspelt queue warns and names the queue that was meant", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  await fresh.client().enqueue(pay, {});
  const set = await run("queues", "set", "paymets", "--target-age", "30s", "--reason", "promised");

  expect(set.code).toBe(0);
  expect(set.stderr).toContain("No job and no worker uses queue paymets; did you mean payments?");
});

test("queues forget deletes settings, once", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  await run("queues", "set", "old", "--target-age", "30s", "--reason", "promised");

  expect((await run("queues", "forget", "old", "--reason", "renamed")).stdout).toContain(
    "Deleted the settings",
  );
  expect((await run("queues", "forget", "old", "--reason", "renamed")).stdout).toContain(
    "no settings of old",
  );
});

test.each([
  [["set", "mail", "--target-age", "-5s", "--reason", "r"], "--target-age"],
  [["set", "mail", "--target-age", "0s", "--reason", "r"], "--target-age: must be at least 1 ms"],
  [["set", "mail", "--target-age", "30", "--reason", "r"], 'did you mean "30s"?'],
  [["set", "mail", "--target-age", "30s"], "--reason"],
  [["set", "mail", "--target-age", "30s", "--reason", ""], "--reason: must not be empty"],
  [["set", "no name", "--target-age", "30s", "--reason", "r"], "must be 1 to 128 characters"],
  [["set", "--target-age", "30s", "--reason", "r"], "queue"],
  [["show", "nothing"], "There is no queue nothing"],
  [["forget", "mail"], "--reason"],
  [["sett", "mail"], "unknown command 'sett' (Did you mean set?)"],
])("queues %j is wrong usage and changes nothing", async (args, says) => {
  const fresh = await freshSchema();
  const ended = await stintOn(fresh)("queues", ...args);

  expect(ended.code).toBe(2);
  expect(ended.stderr).toContain(says);
  expect(await fresh.sql(`select from stint.queue`)).toEqual([]);
});
