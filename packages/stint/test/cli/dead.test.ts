import { expect, test } from "vitest";
import { defineJob, handle, PermanentError, typed, type Job, type Stint } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { answer, stintOn } from "./support.ts";

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

test("dead list says why each died", async () => {
  const { fresh, ids } = await withDead();
  const run = stintOn(fresh);

  const text = await run("dead", "list", "--kind", "scan");
  const json = answer(await run("dead", "list", "--queue", "default", "--limit", "3", "--json")) as {
    jobs: Job[];
    next: null;
  };

  expect(text.code).toBe(0);
  expect(text.stdout.trimEnd().split("\n")).toHaveLength(2);
  expect(text.stdout).toContain(ids[2]);
  expect(text.stdout).toContain("PermanentError: the server said no");
  expect(json).toMatchObject({ jobs: [{ state: "dead" }, { state: "dead" }, { state: "dead" }], next: null });
});

test("dead replay runs named jobs again with the reason, and tells which it could not", async () => {
  const { fresh, client, ids } = await withDead();
  const run = stintOn(fresh);

  expect(await run("dead", "replay", ids[0]!)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--reason: is needed"),
  });
  expect(await run("dead", "replay", ids[0]!, "--reason", "fixed")).toMatchObject({
    code: 0,
    stdout: "Replayed 1 dead job.\n",
  });
  expect(await client.get(ids[0]!)).toMatchObject({ state: "ready", run: 2 });

  const again = await run("dead", "replay", ids[0]!, ids[1]!, "--reason", "fixed", "--json");
  expect(again.code).toBe(1);
  expect(answer(again)).toMatchObject({ replayed: [ids[1]], failed: [{ id: ids[0], code: "WRONG_STATE" }] });
  expect(await fresh.sql("select reason from stint.audit where reason = 'fixed'")).toHaveLength(2);
});

test("dead replay --all counts first, never asks where nobody can answer, and does it with --yes", async () => {
  const { fresh, client } = await withDead();
  const run = stintOn(fresh);
  const all = ["dead", "replay", "--all", "--kind", "mail"];

  expect((await run(...all, "--dry-run")).stdout).toBe("Would replay 2 dead jobs.\n");
  expect(answer(await run(...all, "--dry-run", "--json"))).toEqual({ wouldReplay: 2 });
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

test("dead replay refuses what it could misunderstand", async () => {
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
