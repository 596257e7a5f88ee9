/** Looks at a page as a person would. */
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";
import { desktop, phone } from "./browser.ts";

let axeSource: string | undefined;

type Found = { id: string; impact: string | null; nodes: { target: unknown[]; failureSummary?: string }[] };

const rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/** What axe finds to be serious or worse, by WCAG 2.2 A and AA. `contrast`: of the colours only. */
export async function violations(page: Page, contrast = false): Promise<string[]> {
  axeSource ??= await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  // Handed to the debugger, not written into the page: the page's own policy would refuse a script element.
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axeSource);
  const { violations } = await page.evaluate<{ violations: Found[] }>(
    `axe.run(document, { runOnly: ${JSON.stringify(contrast ? ["color-contrast"] : rules)}, resultTypes: ["violations"] })`,
  );
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(
      ({ id, nodes }) =>
        `${id}: ${nodes.map(({ target, failureSummary }) => `${target.join(" ")} ${failureSummary ?? ""}`).join("; ")}`,
    );
}

type Size = { readonly width: number; readonly height: number };

/**
 * The same in both themes, at a desk and on a phone. A theme changes nothing but colours, so the dark one is asked for those
 * only. The page is left as it was: light and wide.
 */
export async function faults(page: Page, at: readonly Size[] = [phone, desktop]): Promise<string[]> {
  const found: string[] = [];
  for (const viewport of at) {
    const name = `${viewport.width} wide`;
    await page.setViewportSize(viewport);
    for (const colorScheme of ["dark", "light"] as const) {
      await page.emulateMedia({ colorScheme });
      const told = await violations(page, colorScheme === "dark");
      found.push(...told.map((one) => `${name}, ${colorScheme}: ${one}`));
    }
    const wider = await overflow(page);
    if (wider > 0) found.push(`${name}: ${wider} px wider than the window`);
  }
  return found;
}

/** How far the page is wider than the window. */
export async function overflow(page: Page): Promise<number> {
  return await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
}
