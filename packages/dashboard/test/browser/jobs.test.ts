/** The Jobs screen in a real browser, on the real server and real Postgres. */
import type { Page } from "playwright-core";
import { entry } from "stint";
import { describe, expect, test } from "vitest";
import { fakeStint } from "../support/fake.ts";
import { browserPath, visit } from "./support/browser.ts";
import { busyNight } from "./support/busy-night.ts";
import { eventually } from "../support/eventually.ts";
import { dieOf, embed, installation, receipt } from "../support/installation.ts";
import { serve } from "../support/serve.ts";
import { inLab } from "../../../stint/test/support/lab.ts";

const rows = (page: Page) => page.locator("tbody tr[data-row]");

describe.skipIf(browserPath === undefined)("jobs", () => {
  test("filters change the URL and the rows, and the URL restores them", async () => {
    const { stint, serve } = await installation();
    await stint.enqueueMany([
      entry(receipt, { n: 1 }, { key: "receipt:1", tenant: "school-1" }),
      entry(receipt, { n: 2 }, { delay: "1h", tags: ["night"] }),
      entry(embed, { n: 3 }),
    ]);
    const { page, problems } = await visit(`${await serve()}jobs`);
    await rows(page).nth(2).waitFor();
    await page.getByText("3 jobs", { exact: true }).waitFor();

    await page.getByRole("button", { name: "scheduled" }).click();
    await page.waitForURL((url) => url.searchParams.get("state") === "scheduled");
    await eventually(() => rows(page).count()).toBe(1);
    expect(await rows(page).first().innerText()).toContain("send-receipt");

    await page.getByRole("button", { name: "ready" }).click();
    await page.waitForURL((url) => url.searchParams.get("state") === "scheduled,ready");
    await page.getByRole("combobox", { name: "Kind" }).fill("send-receipt");
    await page.getByRole("combobox", { name: "Kind" }).press("Enter");
    await page.waitForURL((url) => url.searchParams.get("kind") === "send-receipt");
    await eventually(() => rows(page).count()).toBe(2);

    await page.getByRole("textbox", { name: "Tenant" }).fill("school-1");
    await page.getByRole("textbox", { name: "Tenant" }).press("Enter");
    await eventually(() => rows(page).count()).toBe(1);
    expect(await rows(page).first().innerText()).toContain("receipt:1");

    await page.reload();
    await eventually(() => rows(page).count()).toBe(1);
    expect(await page.getByRole("textbox", { name: "Tenant" }).inputValue()).toBe("school-1");

    await page.getByRole("button", { name: "Remove the filter Tenant" }).click();
    await eventually(() => rows(page).count()).toBe(2);
    await page.goBack();
    await eventually(() => rows(page).count()).toBe(1);

    await page.getByRole("textbox", { name: "Tenant" }).fill("nobody");
    await page.getByRole("textbox", { name: "Tenant" }).press("Enter");
    await page.getByText("No job matches").waitFor();
    expect(problems).toEqual([]);
  });

  test("pages go to older jobs and back, each job once", async () => {
    const { stint, serve } = await installation();
    await stint.enqueueMany(
      Array.from({ length: 120 }, (_, n) => entry(embed, { n }, { key: `chapter-${n}` })),
    );
    const { page, problems } = await visit(`${await serve()}jobs`);
    const keys = async () => await page.locator("tbody .job-key").allInnerTexts();
    const next = async (name: string, unlike: readonly string[]): Promise<string[]> => {
      await page.getByRole("button", { name }).click();
      await eventually(async () => (await keys()).join()).not.toBe(unlike.join());
      return await keys();
    };

    await rows(page).nth(49).waitFor();
    const first = await keys();
    expect(first[0]).toBe("chapter-119");
    const second = await next("Older", first);
    expect(new URL(page.url()).searchParams.get("after")).not.toBeNull();
    const third = await next("Older", second);
    expect(new Set([...first, ...second, ...third]).size).toBe(120);
    expect(await page.getByRole("button", { name: "Older" }).isDisabled()).toBe(true);

    expect(await next("Newer", third)).toEqual(second);
    expect(await next("Newer", second)).toEqual(first);
    expect(new URL(page.url()).searchParams.get("after")).toBeNull();
    expect(problems).toEqual([]);
  });

  test("rows are selected by Shift and by the keyboard alone, and cancelled", async () => {
    const { stint, serve } = await installation();
    const made = await stint.enqueueMany(Array.from({ length: 6 }, (_, n) => entry(embed, { n })));
    const { page, problems } = await visit(`${await serve()}jobs`);
    await rows(page).nth(5).waitFor();

    // Newest first: the second to the fourth row are jobs 4, 3 and 2.
    for (const key of ["j", "j", "x", "j", "j", "Shift+X"]) await page.keyboard.press(key);
    await page.getByText("3 jobs selected").waitFor();
    await page.getByRole("region", { name: "Selected jobs" }).getByRole("button", { name: "Cancel" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.type("not needed");
    await page.keyboard.press("Enter");
    await page.getByText("3 cancelled of 3.").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });

    const states = await Promise.all(made.map(async ({ id }) => (await stint.get(id))?.state));
    expect(states).toEqual(["ready", "ready", "cancelled", "cancelled", "cancelled", "ready"]);
    expect(await stint.audit(made[3]!.id)).toMatchObject([{ action: "cancel", reason: "not needed" }]);
    expect(problems).toEqual([]);
  });

  test.runIf(inLab)("Enter opens the focused job, and back returns to the same list", async () => {
    const { stint, serve } = await installation();
    const made = await stint.enqueueMany(Array.from({ length: 3 }, (_, n) => entry(embed, { n })));
    const { page, problems } = await visit(`${await serve()}jobs?state=ready`);
    await rows(page).nth(2).waitFor();
    for (const key of ["j", "j", "k", "j", "Enter"]) await page.keyboard.press(key);
    await page.waitForURL((url) => url.pathname.endsWith(`/jobs/${made[1]!.id}`));
    await page.goBack();
    await page.waitForURL((url) => url.searchParams.get("state") === "ready");

    // After g, a letter selects a screen and is not a shortcut of the table.
    await rows(page).nth(2).waitFor();
    for (const key of ["g", "d"]) await page.keyboard.press(key);
    await page.getByText("Nothing is dead").waitFor();
    for (const key of ["g", "j"]) await page.keyboard.press(key);
    await rows(page).nth(2).waitFor();
    expect(problems).toEqual([]);
  });

  test("all matching jobs are replayed after preview, reason and confirmation", async () => {
    const { stint, serve } = await installation();
    const ids = await dieOf(stint, (n) => new Error(`refused ${n}`), 25);
    await stint.enqueue(embed, { n: 1 });
    const address = await serve({
      environment: { name: "eu-live", production: true },
      authorize: () => ({ user: "ada", role: "admin" }),
    });
    const { page, problems } = await visit(`${address}jobs?state=dead`);
    await rows(page).first().waitFor();
    await page.getByRole("button", { name: "Replay …" }).click();
    const dialog = page.getByRole("dialog");
    const submit = dialog.getByRole("button", { name: "Replay 25 jobs" });
    await submit.waitFor();

    // Disabled without a reason, and without the environment's name.
    await submit.click({ force: true });
    await dialog.getByLabel("Reason").fill("the provider is back");
    await submit.click({ force: true });
    await dialog.getByLabel("This is production").fill("eu-liv");
    await submit.click({ force: true });
    expect((await stint.get(ids[0]!))?.state).toBe("dead");
    await dialog.getByLabel("This is production").fill("eu-live");
    await submit.click();

    await dialog.getByText("Finished.").waitFor();
    expect(await dialog.innerText()).toContain("25 replayed");
    const states = await Promise.all(ids.map(async (id) => (await stint.get(id))?.state));
    expect(new Set(states)).toEqual(new Set(["ready"]));
    expect(await stint.audit(ids[7]!)).toMatchObject([
      { action: "replay", actor: "ada", reason: "the provider is back" },
    ]);

    await dialog.getByRole("button", { name: "Close" }).click();
    await page.getByText("No job matches").waitFor();
    await page.goto(`${address}operations`);
    await eventually(() => page.getByRole("row", { name: "Replay" }).innerText()).toContain("finished");
    expect(problems).toEqual([]);
  });

  test("a list without a filter offers no bulk action", async () => {
    const { stint, serve } = await installation();
    await stint.enqueue(embed, { n: 1 });
    const { page } = await visit(`${await serve()}jobs`);
    await rows(page).first().waitFor();
    const cancel = page.getByRole("button", { name: "Cancel …" });
    expect(await cancel.getAttribute("aria-disabled")).toBe("true");
    expect(await cancel.getAttribute("title")).toContain("every job");
  });

  test("the search box filters by qualifiers, saves views and copies a command", async () => {
    const stint = fakeStint({ ...busyNight, schema: "billing_jobs" });
    const { page, problems } = await visit(`${await serve({ stint })}jobs`);
    const line = page.getByRole("combobox", { name: "Search jobs" });
    await line.fill("kind:send-receipt state:dead tag:night");
    await line.press("Enter");
    await page.waitForURL((url) => url.searchParams.get("kind") === "send-receipt");
    expect(new URL(page.url()).searchParams.get("state")).toBe("dead");
    expect(await page.getByLabel("Kind", { exact: true }).inputValue()).toBe("send-receipt");
    await eventually(() => line.inputValue()).toBe("state:dead kind:send-receipt tag:night");

    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.getByRole("button", { name: "Copy as CLI" }).click();
    await page.getByText("Copied", { exact: true }).waitFor();
    expect(await page.evaluate(async () => await navigator.clipboard.readText())).toBe(
      "npx stint jobs list --state dead --kind send-receipt --tag night --schema billing_jobs",
    );
    await page.getByRole("button", { name: "Save view" }).click();
    await page.getByRole("textbox", { name: "Name of the view" }).fill("Night receipts");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await line.fill("");
    await line.press("Enter");
    await page.waitForURL((url) => url.search === "");
    await page.reload();
    await page.getByRole("link", { name: "Night receipts" }).click();
    await page.waitForURL((url) => url.searchParams.get("tag") === "night");

    await line.fill("kind:send*");
    await line.press("Enter");
    await page.waitForURL((url) => url.searchParams.get("kind") === "send*");
    expect(await page.getByLabel("Kind", { exact: true }).inputValue()).toBe("send*");
    expect(problems).toEqual([]);
  });
});
