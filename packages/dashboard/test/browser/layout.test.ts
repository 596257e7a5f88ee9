/** Every screen at the widths people use, with ordinary names and with the longest: nothing overflows. */
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { fakeStint, jobId } from "../support/fake.ts";
import { browserPath, desktop, phone, visit } from "./support/browser.ts";
import { busyNight } from "./support/busy-night.ts";
import { long, longNames } from "./support/long-names.ts";
import { go, overflow, screensWith } from "./support/page.ts";
import { serve } from "../support/serve.ts";
import { inLab, slice } from "../../../stint/test/support/lab.ts";

const small = { width: 1024, height: 768 };

/** The classes of elements whose content overflows, including the page itself. */
async function tooWide(page: Page): Promise<string[]> {
  const boxes = await page.evaluate(() =>
    [...document.querySelectorAll(".rows, .table-frame, .card, .page-head, .top-bar, figure, dl")]
      .filter((box) => box.scrollWidth > box.clientWidth + 1)
      .map((box) => `${box.className || box.tagName}: ${box.scrollWidth} of ${box.clientWidth} px`),
  );
  const wider = await overflow(page);
  return wider > 0 ? [...boxes, `page: ${wider} px`] : boxes;
}

describe.skipIf(browserPath === undefined)("layout", () => {
  const names = [
    { name: "ordinary names", responses: busyNight, queue: "notification" },
    { name: "names of 128 characters", responses: longNames, queue: long("notification") },
  ];

  // A layout that fits the longest names fits all others.
  test.each(slice(names, ({ responses }) => responses === longNames))(
    "no screen is wider than its window: $name",
    async ({ responses, queue }) => {
      const { page, problems } = await visit(await serve({ stint: fakeStint(responses) }), {
        viewport: small,
      });
      await page.getByText("Live", { exact: true }).waitFor();
      for (const screen of [...screensWith(queue), `jobs/${jobId}`]) {
        await page.setViewportSize(small);
        await go(page, screen);
        await page.locator("tbody tr:is([id], [data-row]), .job-columns").first().waitFor();
        for (const viewport of [small, desktop, phone]) {
          await page.setViewportSize(viewport);
          const found = await tooWide(page);
          expect({ screen, width: viewport.width, found }).toEqual({
            screen,
            width: viewport.width,
            found: [],
          });
        }
      }
      expect(problems).toEqual([]);
    },
  );

  test.runIf(inLab)("a long name is cut in a list, with a title, and wraps as a heading", async () => {
    const url = await serve({ stint: fakeStint(longNames) });
    const { page } = await visit(`${url}queues`, { viewport: small });
    const name = page
      .getByRole("table", { name: "Queues" })
      .getByRole("link", { name: long("notification") });
    await name.waitFor();
    expect(await name.getAttribute("title")).toBe(long("notification"));
    expect((await name.boundingBox())!.height).toBeLessThan(30);
    await name.click();
    const title = page.getByRole("heading", { level: 1 });
    await expect.poll(() => title.innerText()).toBe(long("notification"));
    // The whole name is readable.
    expect(await title.evaluate((heading) => heading.scrollWidth <= heading.clientWidth)).toBe(true);
  });
});
