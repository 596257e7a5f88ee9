import { expect, test } from "vitest";
import { defineJob, handle, PermanentError, typed, type Stint } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { jsonOf, stintOn } from "./support.ts";

const mail = defineJob("mail", { payload: typed<object>() });
const scan = defineJob("scan", { payload: typed<object>() });

/** Three jobs that are dead: two of kind mail, one of kind scan. */
async function withDead(): Promise<{ fresh: Fresh; client: Stint; ids: string[] }> {
  const fresh = await freshSchema();
  const client = fresh.client();
  const fail = (): never => {
    throw new PermanentError("the server said no");
  };
  const worker = client.worker({
    pools: { default: 3 },
    signals: false,
    handlers: [handle(mail, fail), handle(scan, fail)],
  });
  const ids = [];
  for (const job of [mail, mail, scan]) ids.push((await client.enqueue(job, {})).id);
  await worker.start();
  await until(async () => (await client.list({ state: "dead" })).jobs.length === 3);
  await worker.stop();
  return { fresh, client, ids };
}

test("dead list prints the groups of errors, then each job's error", async () => {
  const { fresh, ids } = await withDead();
  const run = stintOn(fresh);

  const text = await run("dead", "list");
  const scans = await run("dead", "list", "--kind", "scan");
  const json = jsonOf(await run("dead", "list", "--queue", "default", "--limit", "2", "--json")) as Printed;

  expect(text.code).toBe(0);
  expect(text.stdout).toMatch(
    /^ *JOBS +KIND .*ERROR\n +2 +mail .* PermanentError: the server said no\n +1 +scan .*\n\nID +KIND /,
  );
  expect(text.stdout.trimEnd().split("\n")).toHaveLength(3 + 1 + 4);
  expect(scans.stdout.trimEnd().split("\n")).toHaveLength(2 + 1 + 2);
  // Printed once, although it is both the reason and the error.
  expect(scans.stdout).toMatch(new RegExp(`^${ids[2]} .* PermanentError: the server said no$`, "m"));
  expect(json).toMatchObject({
    groups: [
      { kind: "mail", count: 2, error: "PermanentError: the server said no", example: ids[1] },
      { kind: "scan", count: 1 },
    ],
    others: 0,
    of: { count: 3, capped: false },
    jobs: [
      { id: ids[2], state: "dead" },
      { id: ids[1], state: "dead" },
    ],
    next: ids[1],
    partial: false,
  });

  const second = jsonOf(await run("dead", "list", "--after", json.next, "--json"));
  expect(second).toEqual({ jobs: [expect.objectContaining({ id: ids[0] })], next: null, partial: false });
});

type Printed = { groups: { fingerprint: string }[]; next: string };

test("a group is listed and replayed by its fingerprint", async () => {
  const { fresh, client } = await withDead();
  const run = stintOn(fresh);
  await fresh.sql(`update stint.history set reason = 'Error: another thing' where kind = 'scan'`);
  const { groups } = jsonOf(await run("dead", "list", "--json")) as Printed;
  const chosen = ["--fingerprint", groups[1]!.fingerprint];

  const listed = await run("dead", "list", ...chosen);
  expect(listed.stdout).toMatch(/^ID .*\n\S+ +scan .* Error: another thing[^\n]*\n$/);
  expect((await run("jobs", "list", "--state", "dead", ...chosen)).stdout).toContain(" scan ");
  expect((await run("dead", "replay", "--all", ...chosen, "--dry-run")).stdout).toBe(
    "Would replay 1 dead job.\n",
  );
  await run("dead", "replay", "--all", ...chosen, "--reason", "fixed", "--yes");
  expect((await client.list({ state: "dead" })).jobs.map((job) => job.kind)).toEqual(["mail", "mail"]);
  expect(await run("dead", "list", "--fingerprint", "mail")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--fingerprint: must be the fingerprint of a group of dead jobs"),
  });
});

test("dead replay requeues named jobs with the reason, and lists those it could not", async () => {
  const { fresh, client, ids } = await withDead();
  const run = stintOn(fresh);

  expect(await run("dead", "replay", ids[0]!)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--reason: is required"),
  });
  expect(await run("dead", "replay", ids[0]!, "--reason", "fixed")).toMatchObject({
    code: 0,
    stdout: "Replayed 1 dead job.\n",
  });
  expect(await client.get(ids[0]!)).toMatchObject({ state: "ready", run: 2 });

  const again = await run("dead", "replay", ids[0]!, ids[1]!, "--reason", "fixed", "--json");
  expect(again.code).toBe(1);
  expect(jsonOf(again)).toMatchObject({ replayed: [ids[1]], failed: [{ id: ids[0], code: "WRONG_STATE" }] });
  expect(await fresh.sql("select reason from stint.audit where reason = 'fixed'")).toHaveLength(2);
});

test("dead replay --all counts first, and needs --yes without a terminal", async () => {
  const { fresh, client } = await withDead();
  const run = stintOn(fresh);
  const all = ["dead", "replay", "--all", "--kind", "mail"];

  expect((await run(...all, "--dry-run")).stdout).toBe("Would replay 2 dead jobs.\n");
  expect(jsonOf(await run(...all, "--dry-run", "--json"))).toEqual({ wouldReplay: 2 });
  expect(await run(...all, "--reason", "fixed")).toMatchObject({
    code: 2,
    stdout: "",
    stderr: expect.stringContaining("add --yes"),
  });
  expect((await client.list({ state: "dead" })).jobs).toHaveLength(3);

  expect(await run(...all, "--reason", "fixed", "--yes")).toMatchObject({
    code: 0,
    stdout: "Replayed 2 dead jobs.\n",
  });
  expect((await client.list({ state: "dead" })).jobs.map((job) => job.kind)).toEqual(["scan"]);
});

test("dead replay refuses ambiguous arguments", async () => {
  const { fresh, client, ids } = await withDead();
  const run = stintOn(fresh);

  expect((await run("dead", "replay", "--reason", "x")).stderr).toContain(
    "Give the ids of dead jobs, or --all.",
  );
  expect((await run("dead", "replay", ids[0]!, "--all", "--reason", "x")).code).toBe(2);
  const mistyped = await run("dead", "replay", ids[0]!, "abc", "--reason", "x");
  expect(mistyped).toMatchObject({
    code: 2,
    stdout: "",
    stderr: expect.stringContaining('UUID of a job, got "abc"'),
  });
  expect((await client.get(ids[0]!))?.state).toBe("dead");
  expect((await run("dead", "replay", ids[0]!, "--kind", "mail", "--reason", "x")).code).toBe(2);
});
