/** The Dead screen in a real browser, on the real server and real Postgres. */
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { browserPath, launch, visit } from "./support/browser.ts";
import { eventually } from "./support/eventually.ts";
import { dieOf, embed, installation } from "./support/installation.ts";

describe.skipIf(browserPath === undefined)("dead", () => {
  let browser: Browser;
  beforeAll(async () => void (browser = await launch()));
  afterAll(async () => await browser.close());

  test("groups what died alike; the jobs of one group are replayed, the others stay", async () => {
    const { stint, serve } = await installation();
    const ids = await dieOf(
      stint,
      (n) => (n < 4 ? new RangeError(`out of range ${n}`) : new TypeError(`no card ${n}`)),
      6,
    );
    await stint.enqueue(embed, { n: 1 });
    const { page, problems } = await visit(browser, `${await serve()}dead`);
    const rows = page.locator("tbody tr[data-row]");
    await eventually(() => rows.count()).toBe(6);

    const groups = page.getByRole("region", { name: "Died alike, on this page" });
    expect(await groups.getByRole("button").allInnerTexts()).toEqual([
      expect.stringMatching(/^4\s+RangeError\s+send-receipt$/),
      expect.stringMatching(/^2\s+TypeError\s+send-receipt$/),
    ]);
    await groups.getByRole("button", { name: /TypeError/ }).click();
    await eventually(() => rows.count()).toBe(2);
    await page.getByRole("checkbox", { name: "Select all rows of this page" }).click();
    await page
      .getByRole("region", { name: "Selected jobs" })
      .getByRole("button", { name: "Replay …" })
      .click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Reason").fill("cards are back");
    await dialog.getByRole("button", { name: "Replay 2 jobs" }).click();
    await dialog.getByText("2 replayed of 2.").waitFor();
    await dialog.getByRole("button", { name: "Close" }).click();
    await eventually(() => rows.count()).toBe(4);

    // One alone, from its row.
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

  test("an error's text narrows the list, and where nothing is dead it says what that means", async () => {
    const { stint, serve } = await installation();
    const address = await serve();
    const { page, problems } = await visit(browser, `${address}dead`);
    await page.getByText("Nothing is dead").waitFor();

    await dieOf(stint, (n) => new Error(`code ${n}`), 3);
    const rows = page.locator("tbody tr[data-row]");
    // It comes by itself.
    await eventually(() => rows.count()).toBe(3);
    await page.getByRole("textbox", { name: "Error or reason" }).fill("code 1");
    await page.getByRole("textbox", { name: "Error or reason" }).press("Enter");
    await eventually(() => rows.count()).toBe(1);
    expect(await rows.first().innerText()).toContain("code 1");
    expect(problems).toEqual([]);
  });
});
