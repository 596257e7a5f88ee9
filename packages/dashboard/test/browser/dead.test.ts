/** The Dead screen in a real browser, on the real server and real Postgres. */
import { describe, expect, test } from "vitest";
import { browserPath, visit } from "./support/browser.ts";
import { eventually } from "../support/eventually.ts";
import { dieOf, embed, installation } from "../support/installation.ts";
import { inLab } from "../../../stint/test/support/lab.ts";

describe.skipIf(browserPath === undefined)("dead", () => {
  test("dead jobs are grouped by error, and one group is replayed alone", async () => {
    const { stint, serve } = await installation();
    const ids = await dieOf(
      stint,
      (n) => (n < 4 ? new RangeError(`out of range ${n}`) : new TypeError(`no card ${n}`)),
      6,
    );
    await stint.enqueue(embed, { n: 1 });
    const { page, problems } = await visit(`${await serve()}dead`);
    const rows = page.locator("tbody tr[data-row]");
    await eventually(() => rows.count()).toBe(6);

    const groups = page.getByRole("region", { name: "Errors" });
    const names = groups.locator("[aria-pressed]");
    expect(await names.allInnerTexts()).toEqual([
      expect.stringMatching(/^4\s+RangeError: out of range …\s+send-receipt$/),
      expect.stringMatching(/^2\s+TypeError: no card …\s+send-receipt$/),
    ]);
    await groups.getByRole("button", { name: /TypeError/ }).click();
    await eventually(() => rows.count()).toBe(2);
    expect(new URL(page.url()).searchParams.get("fingerprint")).toMatch(/^[0-9a-f]{12}$/);
    await page.getByText("2 jobs that won't be retried").waitFor();
    // The URL alone shows the same group; closing the group shows all jobs.
    await page.reload();
    await eventually(() => rows.count()).toBe(2);
    await groups.getByRole("button", { pressed: true }).click();
    await eventually(() => rows.count()).toBe(6);

    await groups.getByRole("button", { name: "Replay the 2 jobs of this group" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("2 jobs", { exact: true }).waitFor();
    await dialog.getByLabel("Reason").fill("cards are back");
    await dialog.getByRole("button", { name: "Replay 2 jobs" }).click();
    await dialog.getByText("Finished.").waitFor();
    await dialog.getByRole("button", { name: "Close" }).click();
    await eventually(() => rows.count()).toBe(4);
    await eventually(() => names.count()).toBe(1);

    // A single job, from its row.
    await rows.first().getByRole("button", { name: "Replay" }).click();
    await dialog.getByText("Replay this job").waitFor();
    await dialog.getByText("Replay this job").click();
    await dialog.getByLabel("Reason").fill("try one");
    await dialog.getByLabel("Reason").press("Enter");
    await eventually(() => rows.count()).toBe(3);
    expect(new URL(page.url()).pathname).toMatch(/dead$/);

    const states = await Promise.all(ids.map(async (id) => (await stint.get(id))?.state));
    expect(states.filter((state) => state === "dead")).toHaveLength(3);
    expect(states.slice(4)).toEqual(["ready", "ready"]);
    expect(problems).toEqual([]);
  });

  test("an error's text filters the list, and an empty list explains itself", async () => {
    const { stint, serve } = await installation();
    const address = await serve();
    const { page, problems } = await visit(`${address}dead`);
    await page.getByText("Nothing is dead").waitFor();

    await dieOf(stint, (n) => new Error(`code ${n}`), 3);
    const rows = page.locator("tbody tr[data-row]");
    // The list updates without a reload.
    await eventually(() => rows.count()).toBe(3);
    await page.getByRole("textbox", { name: "Error or reason" }).fill("code 1");
    await page.getByRole("textbox", { name: "Error or reason" }).press("Enter");
    await eventually(() => rows.count()).toBe(1);
    expect(await rows.first().innerText()).toContain("code 1");
    expect(problems).toEqual([]);
  });

  test.runIf(inLab)("the dialog stays when its group is gone, also with updates paused", async () => {
    const { stint, serve } = await installation();
    await dieOf(stint, (n) => new RangeError(`out of range ${n}`), 2);
    const { page, problems } = await visit(`${await serve()}dead`);
    const groups = page.getByRole("region", { name: "Errors" });
    await groups.waitFor();
    await page.getByRole("button", { name: "Pause updating" }).click();
    await groups.getByRole("button", { name: "Replay the 2 jobs of this group" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Reason").fill("ranges are wider");
    await dialog.getByRole("button", { name: "Replay 2 jobs" }).click();
    await eventually(() => groups.count()).toBe(0);
    await dialog.getByText("Finished.").waitFor();
    await dialog.getByRole("button", { name: "Close" }).click();
    await page.getByText("Nothing is dead").waitFor();
    expect(problems).toEqual([]);
  });

  test.runIf(inLab)("groups with hidden fingerprints cannot be opened or replayed", async () => {
    const { stint, serve } = await installation();
    await dieOf(stint, (n) => (n < 2 ? new RangeError("out of range") : new TypeError("no card")), 3);
    const authorize = () => ({ user: "eve", role: "operate" as const });
    const address = await serve({ authorize, redact: ["payload.card"] });
    const { page, problems } = await visit(`${address}dead`);
    const groups = page.getByRole("region", { name: "Errors" });
    await eventually(() => groups.getByRole("listitem").allInnerTexts()).toEqual([
      expect.stringContaining("RangeError: out of range"),
      expect.stringContaining("TypeError: no card"),
    ]);
    expect(await groups.locator("[aria-pressed]").count()).toBe(0);
    const replay = groups.getByRole("button", { name: "Replay the 2 jobs of this group" });
    expect(await replay.getAttribute("aria-disabled")).toBe("true");
    expect(await replay.getAttribute("title")).toContain("right to see payloads");
    await replay.click({ force: true });
    expect(await page.getByRole("dialog").count()).toBe(0);
    expect(problems).toEqual([]);
  });

  test.runIf(inLab)("groups that fail to load show an error beside the list", async () => {
    const { stint, serve } = await installation();
    await dieOf(stint, () => new Error("refused"), 1);
    const { page } = await visit(`${await serve()}dead`);
    await page.route(/\/api\/dead\/groups/, async (route) => {
      const error = { code: "TOO_SLOW", message: "The groups took too long." };
      await route.fulfill({ status: 500, json: { error } });
    });
    await page.reload();
    const alert = page.getByRole("alert").filter({ hasText: "The groups took too long." });
    await alert.waitFor();
    await eventually(() => page.locator("tbody tr[data-row]").count()).toBe(1);
    expect(await page.getByRole("region", { name: "Errors" }).count()).toBe(0);
    // Otherwise the next refresh may remove the alert before the click.
    await page.getByRole("button", { name: "Pause updating" }).click();
    await page.unroute(/\/api\/dead\/groups/);
    await alert.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("region", { name: "Errors" }).waitFor();
    await eventually(() => alert.count()).toBe(0);
  });
});
