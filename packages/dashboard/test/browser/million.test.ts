/** Every screen on a million live jobs. The server's own time limit decides: a question that was cut off is answered with 503. */
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { fillJobs } from "../../../stint/test/support/fill-jobs.ts";
import { browserPath, visit } from "./support/browser.ts";
import { eventually } from "../support/eventually.ts";
import { installation } from "../support/installation.ts";

const rowsOf = (page: Page) => page.locator("tbody tr[data-row]");
const firstRow = async (page: Page) => (await rowsOf(page).first().getAttribute("data-id")) ?? "";

describe.skipIf(browserPath === undefined)("a million jobs", () => {
  test("every screen opens; lists page by page, counts and searches end", { timeout: 180_000 }, async () => {
    const { fresh, serve } = await installation();
    await fillJobs(fresh, { live: 1_000_000, finished: 20_000 });
    const { page, problems } = await visit(await serve());
    const failed: string[] = [];
    const answered = new Set<string>();
    page.on("response", (response) => {
      answered.add(new URL(response.url()).pathname);
      if (response.status() >= 400) failed.push(`${response.status()} ${response.url()}`);
    });
    await page.reload();
    // As a link does: the page stays, asks what the next screen needs, and takes back what the last one still waits for.
    const go = async (path: string) =>
      await page.evaluate((to) => {
        history.pushState({}, "", to);
        dispatchEvent(new PopStateEvent("popstate"));
      }, `/${path}`);
    const hasAnswer = async (path: string) => await eventually(() => answered.has(`/api/${path}`)).toBe(true);

    await eventually(() => page.getByRole("rowheader").count()).toBe(7);
    await page.getByRole("alert").getByText("No worker is running.").waitFor();
    await go("queues");
    await page.getByText(/^among the next [\d,]+ ready$/).waitFor();
    await page.getByRole("region", { name: "Tenants that wait" }).getByRole("rowheader").first().waitFor();
    await go("queues/queue-3?range=24h");
    await page.locator(".chart canvas").first().waitFor();
    await page.getByRole("rowheader", { name: "kind-3", exact: true }).waitFor();
    await go("workers");
    await page.getByRole("heading", { level: 1, name: "Workers" }).waitFor();
    await hasAnswer("workers");
    await go("slow");
    await page.getByRole("heading", { level: 1, name: "Slow" }).waitFor();
    await hasAnswer("slow");

    // Page by page, by the id at which the last one ended.
    await go("jobs");
    // 10,000+, or as far as it came on a busy machine.
    await page.getByText(/^[\d,]+\+ jobs/).waitFor();
    await eventually(() => rowsOf(page).count()).toBe(50);
    const seen = new Set([await firstRow(page)]);
    for (let turn = 0; turn < 3; turn += 1) {
      await page.getByRole("button", { name: "Older" }).click();
      await eventually(async () => seen.has(await firstRow(page))).toBe(false);
      seen.add(await firstRow(page));
    }
    expect(seen.size).toBe(4);

    // Of one in forty, and of none at all: what is not found soon is said to be not all.
    await go("jobs?state=ready&kind=kind-6&tenant=tenant-6");
    const wanted = page.locator('tbody tr[aria-label="kind-6, ready"]');
    await wanted.or(page.getByText("The search stopped at its limit")).first().waitFor();
    await eventually(async () => (await rowsOf(page).count()) - (await wanted.count())).toBe(0);
    await go("jobs?tenant=nobody");
    await page.getByText("No job matches", { exact: true }).waitFor();
    await go(`jobs?key=${encodeURIComponent("live:5")}`);
    await eventually(() => rowsOf(page).count()).toBe(1);
    await rowsOf(page).first().locator("td, th").nth(2).click();
    await page.getByRole("heading", { level: 1, name: "kind-5" }).waitFor();
    await page.getByRole("region", { name: /^Why/ }).waitFor();

    // A bulk operation is looked at before it is begun.
    await go("jobs?state=ready&queue=queue-2");
    await page.getByRole("button", { name: "Cancel …" }).click();
    await page
      .getByRole("dialog")
      .getByText(/^[\d,]+ jobs$/)
      .waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();

    await go("dead");
    await page.getByText(/^[\d,]+\+? jobs that will not be tried again/).waitFor();
    await page
      .getByRole("region", { name: "What they died of" })
      .getByRole("button", { pressed: false })
      .first()
      .waitFor();
    await go("operations");
    await page.getByRole("heading", { level: 1, name: "Operations" }).waitFor();
    await hasAnswer("operations");

    // Health came by the events or by its own question, whichever was faster: its rows were there at the beginning.
    const paths = ["kinds", "stats", "tenants", "series", "jobs", "jobs/count", "dead/groups"];
    for (const path of [...paths, "operations/preview"]) await hasAnswer(path);
    expect(failed).toEqual([]);
    expect(problems).toEqual([]);
  });
});
