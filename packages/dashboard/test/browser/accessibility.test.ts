/** Every screen, both themes, desk and phone: axe finds nothing serious, nothing is cut off, no error is logged. */
import { describe, expect, test } from "vitest";
import { fakeStint } from "../support/fake.ts";
import { browserPath, visit } from "./support/browser.ts";
import { busyNight, jobRows, series } from "./support/busy-night.ts";
import { faults, go, screensWith } from "./support/page.ts";
import { serve } from "../support/serve.ts";
import { inLab, slice } from "../../../stint/test/support/lab.ts";

describe.skipIf(browserPath === undefined)("accessibility", () => {
  test.each(slice(screensWith("notification"), (screen) => screen === "jobs" || screen === "schedules"))(
    "the screen /%s",
    async (screen) => {
      const url = await serve({
        // Twelve rows have the same elements as a hundred, and axe checks each of them.
        stint: fakeStint({
          ...busyNight,
          jobs: () => ({ jobs: jobRows().slice(0, 12), next: null, partial: false }),
        }),
        environment: { name: "live", production: true },
      });
      const { page, problems } = await visit(url + screen);
      await page.locator("tbody tr:is([id], [data-row])").first().waitFor();
      await page.getByText("Live", { exact: true }).waitFor();
      expect(await faults(page)).toEqual([]);
      expect(problems).toEqual([]);
    },
  );

  test.runIf(inLab)("empty states, the palette and the help", async () => {
    const { page, problems } = await visit(await serve({ stint: fakeStint({ series }) }));
    for (const screen of ["", "queues", "capacity", "workers", "slow", "queues/none"]) {
      await go(page, screen);
      await page.waitForURL(`**/${screen}`);
      await page.locator(".empty-state").waitFor();
      expect({ screen, found: await faults(page) }).toEqual({ screen, found: [] });
    }
    await page.keyboard.press("Control+k");
    await page.getByRole("option").first().waitFor();
    expect(await faults(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    expect(await faults(page)).toEqual([]);
    expect(problems).toEqual([]);
  });

  test("the first Tab offers to skip to the screen, and the focus is visible", async () => {
    const { page } = await visit(await serve({ stint: fakeStint(busyNight) }));
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
