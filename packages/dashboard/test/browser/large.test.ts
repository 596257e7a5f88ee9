/**
 * Every screen on many live jobs. The server's own time limit decides: a cancelled query returns 503.
 * Runs in the lab only; `npm run lab:million` runs it with a million.
 */
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { fillJobs } from "../../../stint/test/support/fill-jobs.ts";
import { browserPath, visit } from "./support/browser.ts";
import { eventually } from "../support/eventually.ts";
import { go } from "./support/page.ts";
import { installation } from "../support/installation.ts";
import { inLab } from "../../../stint/test/support/lab.ts";

const rowsOf = (page: Page) => page.locator("tbody tr[data-row]");
const firstRow = async (page: Page) => (await rowsOf(page).first().getAttribute("data-id")) ?? "";

const live = Number(process.env["STINT_TEST_LIVE_JOBS"] ?? 50_000);

describe.skipIf(browserPath === undefined)("many jobs", () => {
  test.runIf(inLab)(
    "every screen opens; lists page by page, counts and searches end",
    { timeout: 240_000 },
    async () => {
      const { fresh, serve } = await installation();
      await fillJobs(fresh, { live, finished: live / 50 });
      const { page, problems } = await visit(await serve());
      const failed: string[] = [];
      const responded = new Set<string>();
      page.on("response", (response) => {
        responded.add(new URL(response.url()).pathname);
        if (response.status() >= 400) failed.push(`${response.status()} ${response.url()}`);
      });
      await page.reload();
      const responds = async (path: string) =>
        await eventually(() => responded.has(`/api/${path}`)).toBe(true);

      await eventually(() => page.getByRole("rowheader").count()).toBe(7);
      await page.getByRole("alert").getByText("No worker is running.").waitFor();
      await go(page, "queues");
      await page.getByText(/^among the next [\d,]+ ready$/).waitFor();
      await page.getByRole("region", { name: "Waiting tenants" }).getByRole("rowheader").first().waitFor();
      await go(page, "queues/queue-3?range=24h");
      await page.locator(".chart canvas").first().waitFor();
      await page.getByRole("rowheader", { name: "kind-3", exact: true }).waitFor();
      await go(page, "workers");
      await page.getByRole("heading", { level: 1, name: "Workers" }).waitFor();
      await responds("workers");
      await go(page, "slow");
      await page.getByRole("heading", { level: 1, name: "Slow" }).waitFor();
      await responds("slow");

      // Page by page, from the last id of the previous page.
      await go(page, "jobs");
      // All jobs, or as many as were counted within the limit.
      await page.getByText(/^[\d,]+\+? jobs/).waitFor();
      await eventually(() => rowsOf(page).count()).toBe(50);
      const seen = new Set([await firstRow(page)]);
      for (let turn = 0; turn < 3; turn += 1) {
        await page.getByRole("button", { name: "Older" }).click();
        await eventually(async () => seen.has(await firstRow(page))).toBe(false);
        seen.add(await firstRow(page));
      }
      expect(seen.size).toBe(4);

      // One match in forty jobs, and none: an unfinished search is reported as partial.
      await go(page, "jobs?state=ready&kind=kind-6&tenant=tenant-6");
      const wanted = page.locator('tbody tr[aria-label="kind-6, ready"]');
      await wanted.or(page.getByText("The search stopped at its limit")).first().waitFor();
      await eventually(async () => (await rowsOf(page).count()) - (await wanted.count())).toBe(0);
      await go(page, "jobs?tenant=nobody");
      await page.getByText("No job matches", { exact: true }).waitFor();
      await go(page, `jobs?key=${encodeURIComponent("live:5")}`);
      await eventually(() => rowsOf(page).count()).toBe(1);
      await rowsOf(page).first().locator("td, th").nth(2).click();
      await page.getByRole("heading", { level: 1, name: "kind-5" }).waitFor();
      await page.getByRole("region", { name: /^Why/ }).waitFor();

      // A bulk operation is previewed before it starts.
      await go(page, "jobs?state=ready&queue=queue-2");
      await page.getByRole("button", { name: "Cancel …" }).click();
      await page
        .getByRole("dialog")
        .getByText(/^[\d,]+ jobs$/)
        .waitFor();
      await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();

      await go(page, "dead");
      await page.getByText(/^[\d,]+\+? jobs that won't be retried/).waitFor();
      await page
        .getByRole("region", { name: "Errors" })
        .getByRole("button", { pressed: false })
        .first()
        .waitFor();
      await go(page, "operations");
      await page.getByRole("heading", { level: 1, name: "Operations" }).waitFor();
      await responds("operations");

      // Health arrives by events or by its own request, whichever is faster; its rows were checked at the start.
      const paths = ["kinds", "stats", "tenants", "series", "jobs", "jobs/count", "dead/groups"];
      for (const path of [...paths, "operations/preview"]) await responds(path);
      expect(failed).toEqual([]);
      expect(problems).toEqual([]);
    },
  );
});
