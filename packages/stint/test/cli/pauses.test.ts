import { expect, test } from "vitest";
import { defineJob, typed } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { jsonOf, stintOn } from "./support.ts";

const work = defineJob("work", { payload: typed<null>() });

test("pause, pauses, jobs why and resume work from a terminal", async () => {
  const fresh = await freshSchema();
  const stint = stintOn(fresh);
  const { id } = await fresh.client().enqueue(work, null);
  expect((await stint("pauses")).stderr).toContain("Nothing is paused.");

  const wrong = await stint("pause", "qeue", "default", "--reason", "down");
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('did you mean "queue"?')]);
  const paused = await stint("pause", "queue", "default", "--reason", "down", "--for", "2h");
  expect(paused.stdout).toMatch(/Paused queue default until \d{4}-/);
  expect(paused.stderr).toBe("");
  for (const [scope, name, text] of [
    ["queue", "defalt", "No job and no worker uses queue defalt; did you mean default?"],
    ["kind", "wrk", "No job and no worker has kind wrk; did you mean work?"],
    ["dependency", "openai", "No code and no setting declares dependency openai."],
  ] as const) {
    expect((await stint("pause", scope, name, "--reason", "down")).stderr).toContain(text);
    await stint("resume", scope, name, "--reason", "misspelt");
  }
  expect((await stint("pauses")).stdout).toMatch(/queue default .* down/);
  expect((await stint("jobs", "why", id)).stdout).toMatch(/Its queue is paused \(default\) .*: down/);
  expect(jsonOf(await stint("pauses", "--json"))).toMatchObject({
    pauses: [{ scope: "queue", name: "default", reason: "down" }],
  });
  expect((await stint("queues", "show", "default")).stdout).toMatch(/pause .* down/);

  expect((await stint("resume", "queue", "default", "--reason", "up")).stdout).toContain(
    "Resumed queue default.",
  );
  expect((await stint("resume", "queue", "default", "--reason", "up")).stdout).toContain("was not paused");
});
