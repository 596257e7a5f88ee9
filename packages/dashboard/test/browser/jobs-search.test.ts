/** A search that needs several requests continues automatically, and is never shown as an empty list. */
import { describe, expect, test } from "vitest";
import type { Page } from "playwright-core";
import { fakeStint } from "../support/fake.ts";
import { browserPath, visit } from "./support/browser.ts";
import { busyNight, jobRows } from "./support/busy-night.ts";
import { eventually } from "../support/eventually.ts";
import { serve } from "../support/serve.ts";
import { inLab, slice } from "../../../stint/test/support/lab.ts";

const cursor = (n: number): string => `019a8f3e-6d1c-7000-8000-${String(n).padStart(12, "0")}`;
const progress = { searched: 200_000, of: 3_000_000 };
const count = { count: 0, capped: true };

/** Pages before `from` are empty and partial. `held`: responses wait for it. */
function searching(from: number, held: Promise<void> = Promise.resolve()) {
  const asked: (string | undefined)[] = [];
  const jobs = async ({ after }: { after?: string }) => {
    asked.push(after);
    const at = after === undefined ? 0 : Number(after.slice(-12));
    if (at === 2) await held;
    if (at < from) return { jobs: [], next: cursor(at + 1), partial: true, progress };
    return { jobs: at === from ? jobRows().slice(0, 2) : [], next: null, partial: false };
  };
  return { asked, jobs };
}

const empties = async (page: Page): Promise<number> =>
  await page
    .getByRole("heading", { name: /^(No jobs yet|No job matches|Nothing is dead|No dead job)/ })
    .count();

describe.skipIf(browserPath === undefined)("a long search", () => {
  test.each(
    slice(["jobs", "jobs?tag=x", "dead", "dead?error=refused"], (path) => /^jobs\?|^dead$/.test(path)),
  )("%s continues by itself with progress until it finds something", async (path) => {
    let go = (): void => undefined;
    const held = new Promise<void>((resolve) => (go = resolve));
    const { asked, jobs } = searching(4, held);
    const stint = fakeStint({ ...busyNight, jobs, count });
    const { page, problems } = await visit(`${await serve({ stint })}${path}`);
    await page.getByText("Searched 400k of about 3M jobs").waitFor();
    expect(await empties(page)).toBe(0);
    go();
    await eventually(() => page.locator("tbody tr[data-row]").count()).toBe(2);
    expect(await page.getByText("Searching further back").count()).toBe(0);
    expect(asked.slice(0, 5)).toEqual([undefined, cursor(1), cursor(2), cursor(3), cursor(4)]);
    expect(problems).toEqual([]);
  });

  test.runIf(inLab)("only a finished search shows that nothing matches", async () => {
    const { jobs } = searching(3);
    const stint = fakeStint({
      ...busyNight,
      jobs: async (of: { after?: string }) => ({ ...(await jobs(of)), jobs: [] }),
      count,
    });
    const { page } = await visit(`${await serve({ stint })}jobs?tag=x`);
    await page.getByRole("heading", { name: "No job matches" }).waitFor();
    expect(await page.getByText("Searching further back").count()).toBe(0);
  });

  test("a search can be stopped, and continues where it stopped", async () => {
    let go = (): void => undefined;
    const held = new Promise<void>((resolve) => (go = resolve));
    const { jobs } = searching(9, held);
    const stint = fakeStint({ ...busyNight, jobs, count });
    const { page } = await visit(`${await serve({ stint })}jobs?tag=x`);
    await page.getByText("Searched 400k of about 3M jobs").waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    go();
    await page.getByText("The search was stopped").waitFor();
    expect(await empties(page)).toBe(0);
    await page.getByRole("button", { name: "Search further back" }).click();
    await page.waitForURL((url) => url.searchParams.get("after") === cursor(3));
    await eventually(() => page.locator("tbody tr[data-row]").count()).toBe(2);
  });
});
