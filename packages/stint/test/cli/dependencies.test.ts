import { expect, test } from "vitest";
import { freshSchema } from "../support/fresh.ts";
import { stintOn } from "./support.ts";

test("dependencies set, list and show print what is in force", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  const none = await run("dependencies");
  const flags =
    "--concurrency 30 --rate 60/1m --burst 10 --quota 1000/day --zone Europe/Berlin --reason plan".split(" ");
  const set = await run("dependencies", "set", "openai", ...flags);
  const list = await run("dependencies", "list");
  const show = await run("dependencies", "show", "openai");
  const less = await run(
    "dependencies",
    "set",
    "openai",
    "--rate",
    "none",
    "--quota",
    "none",
    "--reason",
    "x",
  );
  const declared = await run("dependencies", "set", "openai", "declared", "--reason", "over");

  expect(none.stderr).toBe("There are no dependencies.\n");
  expect(set.stdout).toBe(
    "openai now allows 30 jobs at once, 60 per 1 min with bursts of 10, 1,000 each day (Europe/Berlin).\n",
  );
  expect(list.stdout).toMatch(/openai +30 +0 +0 +60 per 1 min +10 +1000/);
  expect(show.stdout).toMatch(
    /30 jobs at once, 60 per 1 min with bursts of 10, 1,000 each day \(Europe\/Berlin\) +plan/,
  );
  expect(less.stdout).toBe("openai now allows 30 jobs at once.\n");
  expect(declared.stdout).toBe("openai now allows any number of jobs.\n");
});

test.each([
  [["--concurrency", "0"], /concurrency/],
  [["--concurrency", "many"], /concurrency.*got "many"/],
  [[], /Expected either --concurrency/],
  [["declared", "--rate", "60/1m"], /Expected either --concurrency/],
  [["--rate", "60"], /rate\.per/],
  [["--rate", "-1/1m"], /rate\.limit/],
  [["--burst", "5"], /--burst needs --rate/],
  [["--quota", "5/days"], /did you mean "day"/],
  [["--zone", "UTC"], /--zone needs --quota/],
])("dependencies set refuses %j and changes nothing", async (flags, message) => {
  const fresh = await freshSchema();
  const set = await stintOn(fresh)("dependencies", "set", "api", ...flags, "--reason", "x");

  expect(set.code).not.toBe(0);
  expect(set.stderr).toMatch(message);
  expect(await fresh.sql(`select * from stint.dependency`)).toEqual([]);
});
