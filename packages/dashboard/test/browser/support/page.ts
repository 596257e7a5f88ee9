/** Checks that apply to any page, and navigation inside the app. */
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";
import { desktop, phone } from "./browser.ts";

/** The paths of all screens that are tables, with this queue. */
export const screensWith = (queue: string): string[] => [
  "",
  "queues",
  `queues/${encodeURIComponent(queue)}`,
  "schedules",
  "controls",
  "capacity",
  "workers",
  "slow",
  "jobs",
  "dead",
];

let axeSource: string | undefined;

type Found = { id: string; impact: string | null; nodes: { target: unknown[]; failureSummary?: string }[] };

/** All of WCAG 2.2 A and AA; and the parts of it that a theme or a width changes. */
const rules = {
  all: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
  colours: ["color-contrast"],
  layout: ["target-size", "scrollable-region-focusable"],
};

/** The violations that axe calls serious or critical. */
async function violations(page: Page, which: keyof typeof rules): Promise<string[]> {
  axeSource ??= await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  // Evaluated by the debugger: the page's content security policy would refuse a script element.
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axeSource);
  const { violations } = await page.evaluate<{ violations: Found[] }>(
    `axe.run(document, { runOnly: ${JSON.stringify(rules[which])}, resultTypes: ["violations"] })`,
  );
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(
      ({ id, nodes }) =>
        `${which}: ${id}: ${nodes.map(({ target, failureSummary }) => `${target.join(" ")} ${failureSummary ?? ""}`).join("; ")}`,
    );
}

/** One full run of axe on a wide light page, the colours again in the dark, the layout again on a phone. Leaves the page wide and light. */
export async function faults(page: Page): Promise<string[]> {
  const found = await violations(page, "all");
  await page.emulateMedia({ colorScheme: "dark" });
  found.push(...(await violations(page, "colours")));
  await page.emulateMedia({ colorScheme: "light" });
  for (const viewport of [phone, desktop]) {
    await page.setViewportSize(viewport);
    if (viewport === phone) found.push(...(await violations(page, "layout")));
    const wider = await overflow(page);
    if (wider > 0) found.push(`${wider} px wider than the window of ${viewport.width} px`);
  }
  return found;
}

/** By how much the page is wider than the window. */
export async function overflow(page: Page): Promise<number> {
  return await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
}

/** Open another screen as a link does, without reloading the app. */
export async function go(page: Page, path: string): Promise<void> {
  await page.evaluate((to) => {
    history.pushState({}, "", new URL(to, document.baseURI));
    dispatchEvent(new PopStateEvent("popstate"));
  }, path);
}
