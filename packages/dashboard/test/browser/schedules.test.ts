/** Schedules in a real browser, on a real installation. */
import { defineJob, typed } from "stint";
import { describe, expect, test } from "vitest";
import { browserPath, phone, visit } from "./support/browser.ts";
import { faults, overflow } from "./support/page.ts";
import { eventually } from "../support/eventually.ts";
import { installation } from "../support/installation.ts";

const remind = defineJob("remind", { payload: typed<{ user: number }>() });

describe.skipIf(browserPath === undefined)("schedules", () => {
  test("a schedule is added, previewed in a zone, paused, run and removed", async () => {
    const { stint, serve } = await installation({ jobs: [remind] });
    const { page, problems } = await visit(`${await serve()}schedules`);
    await page.getByText("There is no schedule yet").waitFor();

    await page.getByRole("button", { name: "Add …" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("team/remind");
    await dialog.getByLabel("Kind").fill("remnd");
    await dialog.getByLabel("Payload").fill('{"user": ');
    await dialog.getByText("The payload is not valid JSON.").waitFor();
    await dialog.getByLabel("Payload").fill('{"user": 1}');
    await dialog.getByLabel("Pattern").fill("30 2 * * *");
    await dialog.getByLabel("Zone").fill("Europe/Berlinn");
    await dialog.getByText('did you mean "Europe/Berlin"').waitFor();
    await dialog.getByLabel("Zone").fill("Europe/Berlin");
    await eventually(() =>
      dialog.getByRole("list", { name: "Next ten slots" }).getByRole("listitem").count(),
    ).toBe(10);
    await dialog.getByRole("button", { name: "Add", exact: true }).click();
    await dialog.getByText('did you mean "remind"').waitFor();
    expect(await faults(page)).toEqual([]);
    await dialog.getByLabel("Kind").fill("remind");
    await dialog.getByRole("button", { name: "Add", exact: true }).click();

    await page.getByRole("heading", { level: 1, name: "team/remind" }).waitFor();
    const next = page.getByRole("region", { name: "Next ten slots" });
    expect(await next.getByRole("listitem").first().innerText()).toContain("02:30:00 +0");
    await next.getByLabel("Zone").fill("Mars/Olympus");
    await next.getByLabel("Zone").press("Enter");
    await next.getByText("must be the IANA name of a time zone").waitFor();
    await next.getByRole("button", { name: "UTC", exact: true }).click();
    await eventually(() => next.getByRole("listitem").first().innerText()).toContain("30:00 +00:00");
    await page.waitForURL((url) => url.searchParams.get("zone") === "UTC");

    await page.getByRole("button", { name: "Pause …" }).click();
    const pause = page.getByRole("dialog").getByRole("button", { name: "Pause", exact: true });
    expect(await pause.getAttribute("aria-disabled")).toBe("true");
    await page.getByRole("dialog").getByLabel("Reason").fill("incident 12");
    await page.keyboard.press("Enter");
    await page.getByText("It is paused", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Run now …" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Run now" }).click();
    await page.getByRole("list", { name: "Slots" }).getByText("run now").waitFor();
    expect(await page.getByRole("region", { name: "Audit" }).innerText()).toMatch(
      /run-schedule by dashboard[^]*pause-schedule by dashboard: incident 12[^]*set-schedule/,
    );
    expect(await faults(page)).toEqual([]);

    await page.getByRole("button", { name: "Remove …" }).click();
    await page.getByRole("dialog").getByLabel("Reason").fill("done");
    await page.getByRole("dialog").getByRole("button", { name: "Remove", exact: true }).click();
    await page.getByText("There is no schedule yet").waitFor();
    expect((await stint.schedules.list()).schedules).toEqual([]);
    // Each refusal that the page showed is also a line of the browser's console.
    expect(problems.filter((text) => !text.includes("status of 400"))).toEqual([]);
  });

  test("the keyboard opens a schedule, a filter is in the address, long names fit", async () => {
    const { fresh, stint, serve } = await installation({ jobs: [remind] });
    const long = `a/${"x".repeat(126)}`;
    const rule = { every: "15m", job: remind, payload: { user: 1 } };
    await stint.schedules.setMany([
      { name: long, ...rule, options: { tenant: "<img src=x onerror=alert(1)>" } },
      { name: "b", ...rule },
    ]);
    await fresh.sql(`update stint.schedule set error = '<img src=x onerror=alert(1)>' where name = 'b'`);
    await fresh.sql(`
      insert into stint.schedule_slot (schedule, slot, outcome, slots, last_slot)
      values ('b', now() - interval '3 hours', 'missed', 4, now() - interval '2 hours'),
        ('b', now() - interval '1 hour', 'skipped', 1, null), ('b', now() - interval '2 days', 'fired', 1, null)`);
    const { page, problems } = await visit(await serve({ authorize: () => ({ role: "view" }) }));
    await page.getByText("Live", { exact: true }).waitFor();
    for (const key of ["g", "c"]) await page.keyboard.press(key);
    const row = page.getByRole("row").filter({ hasText: "15 min" });
    await row.nth(1).waitFor();
    expect(await row.nth(1).getByRole("img").first().getAttribute("aria-label")).toBe(
      "4 missed, 1 skipped, 20 coming",
    );
    expect(await page.locator("tbody").innerText()).toContain("<img src=x onerror=alert(1)>");
    expect(await page.locator("main img, main iframe").count()).toBe(0);
    // A viewer cannot act.
    const add = page.getByRole("button", { name: "Add …" });
    expect(await add.getAttribute("title")).toContain("needs the role admin");

    await page.getByLabel("Name").fill("xxx");
    await page.waitForURL((url) => url.searchParams.get("search") === "xxx");
    await eventually(() => row.count()).toBe(1);
    await page.getByRole("textbox", { name: "Name" }).blur();
    for (const key of ["j", "Enter"]) await page.keyboard.press(key);
    await page.getByRole("heading", { level: 1, name: long }).waitFor();
    await page.getByText("Hidden: your role may not see payloads.").waitFor();
    await page.setViewportSize(phone);
    expect(await overflow(page)).toBe(0);
    expect(problems).toEqual([]);
  });
});
