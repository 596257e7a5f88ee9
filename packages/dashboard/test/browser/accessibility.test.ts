/** Every screen, both themes, desk and phone: axe finds nothing serious, nothing is cut off, nobody complains. */
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fakeStint } from "../support/fake.ts";
import { browserPath, desktop, launch, phone, visit } from "./support/browser.ts";
import { busyNight, series } from "./support/busy-night.ts";
import { overflow, violations } from "./support/page.ts";
import { serve } from "./support/serve.ts";

const looks = [
  { colorScheme: "light", viewport: desktop },
  { colorScheme: "dark", viewport: desktop },
  { colorScheme: "light", viewport: phone },
  { colorScheme: "dark", viewport: phone },
] as const;

const screens = ["", "queues", "queues/notification", "workers", "slow", "jobs", "dead"];

describe.skipIf(browserPath === undefined)("accessibility", () => {
  let browser: Browser;
  beforeAll(async () => void (browser = await launch()));
  afterAll(async () => await browser.close());

  test.each(looks)("every screen, $colorScheme, $viewport.width wide", async (look) => {
    const url = await serve({ stint: fakeStint(busyNight), environment: { name: "live", production: true } });
    const { page, problems } = await visit(browser, url, look);
    for (const screen of screens) {
      await page.goto(url + screen);
      await page.locator("tbody tr:is([id], [data-row])").first().waitFor();
      await page.getByText("Live", { exact: true }).waitFor();
      expect({ screen, found: await violations(page) }).toEqual({ screen, found: [] });
      expect({ screen, wider: await overflow(page) }).toEqual({ screen, wider: 0 });
    }
    expect(problems).toEqual([]);
  });

  test.each(["light", "dark"] as const)("what teaches and what opens, %s", async (colorScheme) => {
    const url = await serve({ stint: fakeStint({ series }) });
    const { page, problems } = await visit(browser, url, { colorScheme });
    for (const screen of ["", "queues", "workers", "slow", "queues/none"]) {
      await page.goto(url + screen);
      await page.locator(".empty-state").waitFor();
      expect({ screen, found: await violations(page) }).toEqual({ screen, found: [] });
    }
    await page.keyboard.press("Control+k");
    await page.getByRole("option").first().waitFor();
    expect(await violations(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    expect(await violations(page)).toEqual([]);
    expect(problems).toEqual([]);
  });

  test("by keyboard alone: the first Tab offers to skip to the screen, and what has the focus is ringed", async () => {
    const { page } = await visit(browser, await serve({ stint: fakeStint(busyNight) }));
    await page.getByRole("rowheader").first().waitFor();
    await page.keyboard.press("Tab");
    const focused = async () => await page.evaluate(() => document.activeElement?.textContent ?? "");
    expect(await focused()).toBe("Skip to the screen");
    await page.keyboard.press("Enter");
    expect(await page.evaluate(() => document.activeElement?.id)).toBe("main");
    await page.keyboard.press("Tab");
    expect(await focused()).toBe("deliver-webhook");
    const ring = await page.evaluate(
      () => getComputedStyle(document.activeElement ?? document.body).outlineStyle,
    );
    expect(ring).toBe("solid");
  });
});
