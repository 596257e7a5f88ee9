/** axe on the screens of jobs, in both themes, with and without a dialog, wide and narrow. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Browser, Page } from "playwright-core";
import { entry } from "stint";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { browserPath, desktop, launch, phone, visit } from "./support/browser.ts";
import { dieOf, embed, installation } from "./support/installation.ts";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

type Violation = { id: string; impact: string | null; nodes: { html: string; failureSummary: string }[] };

async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const run = (window as unknown as { axe: { run(): Promise<{ violations: Violation[] }> } }).axe;
    return (await run.run()).violations;
  });
  return found
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes[0]?.html.slice(0, 160)} ${nodes[0]?.failureSummary}`);
}

describe.skipIf(browserPath === undefined)("accessibility of jobs", () => {
  let browser: Browser;
  beforeAll(async () => void (browser = await launch()));
  afterAll(async () => await browser.close());

  test.each([
    ["light", desktop],
    ["dark", desktop],
    ["dark", phone],
  ] as const)("%s, %o", { timeout: 120_000 }, async (colorScheme, viewport) => {
    const { stint, serve } = await installation();
    const [dead] = await dieOf(stint, (n) => (n === 0 ? new TypeError("no card") : new Error("refused")), 3);
    await stint.enqueueMany([entry(embed, { n: 1 }), entry(embed, { n: 2 }, { delay: "1h", tenant: "a" })]);
    await stint.cancel((await stint.enqueue(embed, { n: 3 })).id, { reason: "not needed" });
    const address = await serve({ environment: { name: "live", production: true } });
    const { page, problems } = await visit(browser, `${address}jobs`, { colorScheme, viewport });

    await page.getByRole("row", { name: /scheduled/ }).waitFor();
    expect(await violations(page)).toEqual([]);
    await page
      .getByRole("row", { name: /scheduled/ })
      .getByRole("checkbox")
      .click();
    await page.getByText("1 job selected").waitFor();
    expect(await violations(page)).toEqual([]);
    await page.goto(`${address}jobs?state=ready,scheduled&kind=embed-chapter`);
    await page.getByRole("button", { name: "Cancel …" }).click();
    await page.getByRole("dialog").getByText("2 jobs", { exact: true }).waitFor();
    expect(await violations(page)).toEqual([]);
    await page.getByRole("dialog").getByLabel("Reason").fill("no longer");
    await page.getByLabel("This is production").fill("live");
    await page.getByRole("button", { name: "Cancel 2 jobs" }).click();
    await page.getByText("Finished.").waitFor();
    expect(await violations(page)).toEqual([]);

    await page.goto(`${address}jobs/${dead}`);
    await page.getByText("Stack", { exact: true }).click();
    expect(await violations(page)).toEqual([]);
    await page.goto(`${address}dead`);
    await page.getByRole("region", { name: "Died alike, on this page" }).waitFor();
    expect(await violations(page)).toEqual([]);
    await page.goto(`${address}operations`);
    await page.getByRole("row", { name: "Cancel" }).waitFor();
    expect(await violations(page)).toEqual([]);
    expect(problems).toEqual([]);
  });
});
