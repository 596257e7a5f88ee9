import { expect, test } from "vitest";
import { freshSchema } from "../support/fresh.ts";
import { stintOn } from "./support.ts";

test("limits set, list, keys, show and pass print what is in force", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  const none = await run("limits");
  const set = await run("limits", "set", "kind:charge", "5", "--reason", "the provider allows more");
  const list = await run("limits", "list");
  const keys = await run("limits", "keys");
  const show = await run("limits", "show", "kind:charge");
  const pass = await run("limits", "pass", "order:charge=1", "--reason", "x");
  const gone = await run("limits", "set", "kind:charge", "declared", "--reason", "over");

  expect(none.stderr).toBe("There are no limits.\n");
  expect(set.stdout).toBe("kind:charge is now 5.\n");
  expect(list.stdout).toMatch(/kind:charge +5/);
  expect(keys.stderr).toBe("No job holds or waits for a place.\n");
  expect(show.stdout).toMatch(/set-limit .*none → 5 +the provider allows more/);
  expect(pass.stdout).toBe("No dead job blocks order:charge=1.\n");
  expect(gone.stdout).toBe("There is no limit kind:charge now.\n");
});

test.each([
  ["0", /from 1/],
  ["1.5", /integer/],
  ["many", /integer or "declared", got "many"/],
])("limits set refuses the value %s and changes nothing", async (max, message) => {
  const fresh = await freshSchema();
  const set = await stintOn(fresh)("limits", "set", "kind:charge", max, "--reason", "x");

  expect(set).toMatchObject({ code: 2, stderr: expect.stringMatching(message) as string });
  expect(await fresh.sql(`select * from stint.limit`)).toEqual([]);
});
