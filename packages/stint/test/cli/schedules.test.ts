import { expect, test } from "vitest";
import { freshSchema } from "../support/fresh.ts";
import { jsonOf, project, stint, stintOn, type Ended } from "./support.ts";
import { audit } from "../schedules/support.ts";

const region = { region: "eu" };

test("schedules add stores a schedule of a kind in the config, checked", async () => {
  const fresh = await freshSchema();
  const folder = await project({
    "stint.config.js": `
      import { defineConfig, defineJob, typed } from "stint";
      export default defineConfig({ schema: "${fresh.schema}", jobs: [defineJob("remind", { payload: typed() })] });`,
  });
  const run = async (...args: string[]): Promise<Ended> =>
    await stint(args, { cwd: folder, env: { DATABASE_URL: fresh.url } });
  const added = await run(
    "schedules",
    "add",
    "reminder:42",
    "remind",
    '{"user":42}',
    "--cron",
    "0 9 * * *",
    "--zone",
    "Asia/Kolkata",
    "--catch-up",
    "none",
    "--overlap",
    "skip",
    "--quiet-hours",
    "22:00-07:00",
    "--tag",
    "a",
    "--reason",
    "asked for it",
  );

  expect(added).toMatchObject({ code: 0, stderr: "" });
  expect(added.stdout).toMatch(
    /^Stored schedule reminder:42\. Its next slot: \w{3} \d{4}-\d\d-\d\d 09:00:00 \+05:30\.\n$/,
  );
  expect(await fresh.client().schedules.get("reminder:42")).toMatchObject({
    cron: "0 9 * * *",
    zone: "Asia/Kolkata",
    catchUp: "none",
    overlap: "skip",
    quietHours: { from: "22:00", to: "07:00", zone: "Asia/Kolkata" },
    kind: "remind",
    payload: { user: 42 },
  });

  const wrong = await run("schedules", "add", "x", "remind", "{}", "--cron", "0 0 31 2 *");
  expect(wrong).toMatchObject({ code: 2, stdout: "" });
  expect(wrong.stderr).toContain("--cron: must match some day");
  const zone = await run("schedules", "add", "x", "remind", "{}", "--every", "1h", "--zone", "Mars/Base");
  expect(zone.stderr).toContain("--zone: must be the IANA name");
  const kind = await run("schedules", "add", "x", "remnd", "{}", "--every", "1h");
  expect(kind.stderr).toContain('did you mean "remind"?');
  expect((await fresh.client().schedules.list()).schedules).toHaveLength(1);
});

test("schedules list, show, pause, resume, run and remove act on stored schedules", async () => {
  const fresh = await freshSchema();
  const client = fresh.client();
  const run = stintOn(fresh);
  expect((await run("schedules")).stderr).toBe("There are no such schedules.\n");
  await client.schedules.set("nightly", {
    cron: "0 3 * * *",
    zone: "Europe/Berlin",
    job: audit,
    payload: region,
  });

  const list = await run("schedules", "list");
  expect(list.stdout).toMatch(/SCHEDULE +STATE +RULE/);
  expect(list.stdout).toMatch(/nightly +active +0 3 \* \* \* +Europe\/Berlin +audit +in /);
  expect((await run("schedules", "pause", "nightly", "--reason", "incident")).stdout).toBe(
    "Paused nightly.\n",
  );
  expect((await run("schedules", "list", "--json")).stdout).toContain('"state": "paused"');
  expect((await run("schedules", "resume", "nightly")).stdout).toBe("Resumed nightly.\n");
  const ran = await run("schedules", "run", "nightly", "--reason", "after the fix");
  const [, id = ""] = /^Enqueued a job of nightly: (\S+)\n$/.exec(ran.stdout) ?? [];
  expect(await client.get(id)).toMatchObject({ kind: "audit", state: "ready", payload: region });

  const shown = await run("schedules", "show", "nightly");
  expect(shown.stdout).toMatch(/State +active/);
  expect(shown.stdout).toMatch(/run-now .* \S+-\S+-/);
  expect(shown.stdout).toMatch(/pause-schedule .* incident/);
  expect((await run("schedules", "remove", "nightly")).stdout).toBe("Removed nightly.\n");
  const gone = await run("schedules", "show", "nightly");
  expect(gone).toMatchObject({ code: 1 });
  expect(gone.stderr).toContain('No schedule "nightly" exists');
});

test("schedules next shows slots in any zone, also of a rule that is not stored", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  await fresh.client().schedules.set("noon", { cron: "0 12 * * *", job: audit, payload: region });
  const stored = await run("schedules", "next", "noon", "--count", "3", "--zone", "Asia/Kolkata");
  expect(stored.stdout.trim().split("\n")).toHaveLength(4);
  expect(stored.stdout).toMatch(/Asia\/Kolkata +UTC\n\w{3} \S+ 17:30:00 \+05:30 +\S+T12:00:00\.000Z/);

  const rule = await run("schedules", "next", "--cron", "30 2 * * *", "--zone", "Europe/Berlin", "--json");
  expect((jsonOf(rule) as { slots: unknown[] }).slots).toHaveLength(10);
  expect((await run("schedules", "next")).code).toBe(2);
  expect((await run("schedules", "next", "noon", "--zone", "Nowhere")).stderr).toContain(
    "--zone: must be the IANA name",
  );
  expect((await run("schedules", "nxt")).stderr).toContain("Did you mean next?");
});
