/** Dragging over a chart, with a real mouse. */
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { fakeStint } from "../support/fake.ts";
import { serve } from "../support/serve.ts";
import { browserPath, visit } from "./support/browser.ts";
import { busyNight } from "./support/busy-night.ts";
import { inLab } from "../../../stint/test/support/lab.ts";

const charts = ["Throughput", "Failures", "Queue time p95"];
const plot = (page: Page, title: string) =>
  page.getByRole("figure").filter({ has: page.getByRole("heading", { name: title, exact: true }) });

/** Drag over the middle half of a chart. */
async function drag(page: Page, title: string): Promise<void> {
  const box = (await plot(page, title).locator(".u-over").boundingBox())!;
  const middle = box.y + box.height / 2;
  await page.mouse.move(box.x + box.width / 4, middle);
  await page.mouse.down();
  await page.mouse.move(box.x + (box.width * 3) / 4, middle, { steps: 5 });
  await page.mouse.up();
}

/** The minute of the day that the legend shows for the left edge of a chart. */
async function firstMinute(page: Page, title: string): Promise<number> {
  const box = (await plot(page, title).locator(".u-over").boundingBox())!;
  await page.mouse.move(box.x + 1, box.y + box.height / 2);
  const [, hour, minute] = /(\d\d):(\d\d)$/.exec(
    await plot(page, title).locator(".u-legend .u-value").first().innerText(),
  )!;
  return Number(hour) * 60 + Number(minute);
}

const span = (page: Page) =>
  ["from", "to"].map((name) => Date.parse(new URL(page.url()).searchParams.get(name) ?? ""));

describe.skipIf(browserPath === undefined)("zoom", () => {
  test.runIf(inLab)(
    "a drag zooms all landing charts, the URL has the range, a double click resets",
    async () => {
      const { page, problems } = await visit(await serve({ stint: fakeStint(busyNight) }));
      await plot(page, "Throughput").locator(".u-over").waitFor();
      const whole = await firstMinute(page, "Throughput");

      await drag(page, "Throughput");
      await page.waitForURL((url) => url.searchParams.has("from") && url.searchParams.has("to"));
      const [from = 0, to = 0] = span(page);
      expect((to - from) / 60_000).toBeGreaterThan(20);
      expect((to - from) / 60_000).toBeLessThan(40);
      await page
        .getByRole("region", { name: "Last hour" })
        .getByText(/\d\d:\d\d:\d\d to \d\d:\d\d:\d\d/)
        .waitFor();
      const expected = await page.evaluate(
        (at) => new Date(at).getHours() * 60 + new Date(at).getMinutes(),
        from,
      );
      expect(expected).not.toBe(whole);
      for (const title of charts)
        expect(Math.abs((await firstMinute(page, title)) - expected)).toBeLessThanOrEqual(1);

      // The URL alone shows the same span.
      await page.reload();
      await plot(page, "Failures").locator(".u-over").waitFor();
      expect(Math.abs((await firstMinute(page, "Failures")) - expected)).toBeLessThanOrEqual(1);

      await plot(page, "Failures").locator(".u-over").dblclick();
      await page.waitForURL((url) => !url.searchParams.has("from") && !url.searchParams.has("to"));
      for (const title of charts)
        expect(Math.abs((await firstMinute(page, title)) - whole)).toBeLessThanOrEqual(1);
      expect(problems).toEqual([]);
    },
  );

  test.runIf(inLab)("the charts of a queue zoom the same way, and a button resets", async () => {
    const { page, problems } = await visit(
      `${await serve({ stint: fakeStint(busyNight) })}queues/notification?range=6h`,
    );
    await plot(page, "Depth").locator(".u-over").waitFor();
    await drag(page, "Depth");
    await page.waitForURL((url) => url.searchParams.has("from"));
    expect(new URL(page.url()).searchParams.get("range")).toBe("6h");
    await page.getByRole("button", { name: "Reset zoom" }).click();
    await page.waitForURL((url) => !url.searchParams.has("from"));
    expect(problems).toEqual([]);
  });
});
