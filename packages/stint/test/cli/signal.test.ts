import { expect, test } from "vitest";
import { defineJob, handle, typed } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";
import { jsonOf, stintOn } from "./support.ts";

const order = defineJob("order", { payload: typed<null>(), key: () => "order:42", signals: ["approved"] });

test("signal, jobs show and jobs complete work from a terminal", async () => {
  const fresh = await freshSchema();
  const client = fresh.client();
  await startWorker(client, {
    handlers: [
      handle(order, async ({ step, log, progress, checkpoint, waitForSignal }) => {
        await step("charge", () => ({ charge: "c_1" }));
        progress(0.5, "charged");
        log("waits for the boss");
        await checkpoint({ row: 3 });
        return await waitForSignal("approved", { timeout: "1h" });
      }),
    ],
  });
  const { id } = await client.enqueue(order, null);
  await until(async () => (await client.get(id))?.parkReason === "signal", { message: "it waits" });

  const shown = await stintOn(fresh)("jobs", "show", id);
  expect(shown.stdout).toMatch(/Progress +50 %, charged/);
  expect(shown.stdout).toMatch(/Checkpoint +\{"row":3\}/);
  expect(shown.stdout).toContain("waits for the boss");
  expect(shown.stdout).toMatch(/1 +charge +done .*\{"charge":"c_1"\}/);
  expect(shown.stdout).toMatch(/2 +signal approved +waiting until /);
  const wrong = await stintOn(fresh)("signal", "order:42", "aproved");
  expect(wrong.code).toBe(2);
  expect(wrong.stderr).toContain('did you mean "approved"?');
  const sent = await stintOn(fresh)("signal", "order:42", "approved", '{"by":"ann"}', "--json");
  expect(jsonOf(sent)).toEqual({ job: id, signal: "approved" });
  expect(await client.waitFor(id, { timeout: "60s" })).toEqual({ by: "ann" });
  expect(jsonOf(await stintOn(fresh)("jobs", "show", id, "--json"))).toMatchObject({
    steps: [{ name: "charge" }, { name: "signal approved", state: "done", result: { by: "ann" } }],
    progress: { fraction: 0.5, lineCount: 2 },
    signals: [],
  });

  const other = await client.enqueue(order, null, { delay: "1h" });
  await stintOn(fresh)("signal", other.id, "approved");
  expect((await stintOn(fresh)("jobs", "show", other.id)).stdout).toMatch(/approved +.* +null/);
  const change = ["--payload", "{}", "--delay", "2h", "--priority", "-5", "--reason", "VIP"];
  const changed = await stintOn(fresh)("jobs", "change", other.id, ...change);
  expect(changed.stdout).toBe(`${other.id} has changed.\n`);
  expect(await client.get(other)).toMatchObject({ payload: {}, priority: -5, state: "scheduled" });
  const refused = await stintOn(fresh)("jobs", "change", id, "--priority", "1");
  expect(refused.stderr).toContain("change needs a job that is scheduled or ready or retrying or parked");
  const done = await stintOn(fresh)("jobs", "complete", other.id, '{"ok":1}', "--reason", "by phone");
  expect(done.stdout).toBe(`${other.id} has succeeded.\n`);
  expect(await client.get(other)).toMatchObject({ state: "succeeded", result: { ok: 1 } });
});
