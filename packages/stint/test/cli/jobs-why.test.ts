import { expect, test } from "vitest";
import { defineJob, handle, typed } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { jsonOf, stintOn } from "./support.ts";

const add = defineJob("add", { payload: typed<unknown>(), queue: "sums" });

test("jobs why prints the cause of a wait and the fix, as text and JSON", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  const { id } = await fresh.client().enqueue(add, {});

  const text = await run("jobs", "why", id);
  const json = jsonOf(await run("jobs", "why", id, "--json"));

  expect(text.code).toBe(0);
  expect(text.stdout).toMatch(
    /^It has been ready for .* No worker serves queue sums\.\n✗ No worker serves queue sums\.\n {2}→ Start one/,
  );
  // The tests install under another name than usual: as it is printed, it must work there.
  expect(text.stdout).toContain(`Start one: \`npx stint worker --schema ${fresh.schema}\`.`);
  expect(json).toMatchObject({
    id,
    summary: expect.stringContaining("No worker serves queue sums") as string,
    findings: [{ blocks: true, text: "No worker serves queue sums." }],
  });
});

test("jobs why of a missing job is an error, and of an invalid id wrong usage", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);

  expect(await run("jobs", "why", "019a8a2c-1f00-7000-8000-0123456789ab")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("[JOB_NOT_FOUND]") as string,
  });
  expect((await run("jobs", "why", "7")).code).toBe(2);
});

test("control characters and passwords of an error are never printed raw", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  const client = fresh.client();
  const hostile = "\u001b[2J\u001b]0;owned\u0007\u009b31m\u202egnp";
  const { id } = await client.enqueue(add, {}, { attempts: 1 });
  const worker = client.worker({
    pools: { sums: 1 },
    signals: false,
    handlers: [
      handle(add, () => {
        throw new Error(`${hostile}\nfake line postgres://app:hunter2@db/app`);
      }),
    ],
  });
  await worker.start();
  await until(async () => (await client.get(id))?.state === "dead");
  await worker.stop();

  const runs = await Promise.all([
    run("jobs", "why", id),
    run("jobs", "list", "--state", "dead", "--error", "FAKE line"),
    run("jobs", "replay", "--state", "dead", "--dry-run"),
    run("jobs", "why", id, "--json"),
    run("jobs", "list", "--json"),
  ]);

  for (const [index, { code, stdout }] of runs.entries()) {
    expect(code).toBe(0);
    expect(stdout).toContain(index === 0 ? "It died" : id);
    expect(stdout.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\u202e]/u);
  }
  for (const { stdout } of runs.slice(0, 3)) expect(stdout).not.toContain("hunter2");
});
