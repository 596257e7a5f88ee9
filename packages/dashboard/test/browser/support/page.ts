/** Looks at a page as a person would. */
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";

let axeSource: string | undefined;

type Found = { id: string; impact: string | null; nodes: { target: unknown[]; failureSummary?: string }[] };

/** What axe finds to be serious or worse, by WCAG 2.2 A and AA. */
export async function violations(page: Page): Promise<string[]> {
  axeSource ??= await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  // Handed to the debugger, not written into the page: the page's own policy would refuse a script element.
  await page.evaluate(axeSource);
  const { violations } = await page.evaluate<{ violations: Found[] }>(
    `axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] })`,
  );
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(
      ({ id, nodes }) =>
        `${id}: ${nodes.map(({ target, failureSummary }) => `${target.join(" ")} ${failureSummary ?? ""}`).join("; ")}`,
    );
}

/** How far the page is wider than the window. */
export async function overflow(page: Page): Promise<number> {
  return await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
}
