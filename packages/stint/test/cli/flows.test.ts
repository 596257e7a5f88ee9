import { expect, test } from "vitest";
import { defineJob, entry, typed } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { stintOn } from "./support.ts";

const job = defineJob("job", { payload: typed<object>() });

test("flows list, show and cancel print what waits for what", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  const none = await run("flows", "list");
  const flow = await fresh.client().flow("checkout", {
    charge: entry(job, {}),
    pack: entry(job, {}, { after: ["charge"] }),
    mail: entry(job, {}, { after: ["charge"] }),
    ship: entry(job, {}, { after: ["charge", "pack"] }),
  });
  const list = await run("flows", "list", "--live");
  const show = await run("flows", "show", flow.jobs.ship.id);
  const cancel = await run("flows", "cancel", flow.id, "--reason", "no stock");

  expect(none.stderr).toBe("There are no flows.\n");
  expect(list.stdout).toMatch(new RegExp(`${flow.id} +checkout +running`));
  const lines = show.stdout.replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "ID").split("\n");
  expect(lines[0]).toMatch(/^checkout ID {2}running {2}0 of 4 parts succeeded/);
  expect(lines.slice(1, 5).map((line) => line.trimEnd())).toEqual([
    "○ charge (job)  ready  ID",
    "├─ ○ pack (job)  blocked  ID",
    "│  └─ ○ ship (job)  blocked  ID  also after charge (job)",
    "└─ ○ mail (job)  blocked  ID",
  ]);
  expect(cancel.stdout).toBe("4 parts cancelled or asked to stop.\n");
  expect((await run("flows", "show", flow.id)).stdout).toContain("Stopped: no stock");
});

test("flows show refuses an id that is no flow", async () => {
  const fresh = await freshSchema();
  const shown = await stintOn(fresh)("flows", "show", "00000000-0000-7000-8000-000000000001");

  expect(shown).toMatchObject({ code: 2, stderr: expect.stringContaining("There is no flow") as string });
});
