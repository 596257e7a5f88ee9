/** The status in the top bar is Live only while the server responds. The page's clock is moved, nothing waits for real time. */
import { describe, expect, test } from "vitest";
import type { Page } from "playwright-core";
import { fakeStint } from "../support/fake.ts";
import { quick, serve } from "../support/serve.ts";
import { browserPath, phone, visit } from "./support/browser.ts";
import { busyNight, health } from "./support/busy-night.ts";
import { startHoldingProxy } from "./support/holding-proxy.ts";
import { overflow } from "./support/page.ts";
import { inLab } from "../../../stint/test/support/lab.ts";

const status = (page: Page, words: RegExp) =>
  page.getByRole("banner").getByRole("status").filter({ hasText: words });

/** Advances the page's clock in steps until the status has this text. */
async function passTimeUntil(page: Page, words: RegExp): Promise<void> {
  await expect
    .poll(
      async () => {
        await page.clock.fastForward(1_000);
        return await status(page, words).count();
      },
      { timeout: 90_000 },
    )
    .toBe(1);
}

describe.skipIf(browserPath === undefined)("a server that stops responding", () => {
  test("the page shows since when the server does not respond, and recovers", async () => {
    const proxy = await startHoldingProxy(await serve({ stint: fakeStint(busyNight), ...quick }));
    const { page } = await visit(proxy.url, { clock: true });
    await status(page, /^Live$/).waitFor();

    proxy.hold();
    await passTimeUntil(page, /^Not responding since \d\d:\d\d:\d\d$/);
    expect(await status(page, /^Live$/).count()).toBe(0);
    await page.getByRole("alert").getByText("does not respond").waitFor();
    await page.setViewportSize(phone);
    expect(await overflow(page)).toBe(0);
    const pause = page.getByRole("button", { name: "Pause updating" });
    expect((await pause.boundingBox())?.x).toBeLessThan(phone.width - 60);

    proxy.release();
    await status(page, /^Live$/).waitFor();
    expect(await page.getByRole("alert").getByText("does not respond").count()).toBe(0);
  });

  test.runIf(inLab)("an idle stream is opened again while the server responds", async () => {
    const proxy = await startHoldingProxy(await serve({ stint: fakeStint(busyNight), ...quick }));
    const { page } = await visit(proxy.url, { clock: true });
    await status(page, /^Live$/).waitFor();

    // Open connections hang, as behind a proxy that lost its state; new connections work.
    proxy.hold(true);
    await passTimeUntil(page, /^(Not responding|Polling)/);
    await passTimeUntil(page, /^Live$/);
    expect(await page.getByRole("alert").getByText("does not respond").count()).toBe(0);
  });

  test.runIf(inLab)("figures that stop while the server responds are not shown as live", async () => {
    let hangs = false;
    const stint = fakeStint({
      ...busyNight,
      health: async () => {
        if (hangs) await new Promise(() => undefined);
        return health();
      },
    });
    const { page } = await visit(await serve({ stint, ...quick }), { clock: true });
    await status(page, /^Live$/).waitFor();
    hangs = true;
    await passTimeUntil(page, /^No fresh figures since \d\d:\d\d:\d\d$/);
    expect(await status(page, /^Live$/).count()).toBe(0);
  });
});
