/** The mark in the corner says Live only while the server responds. */
import { describe, expect, test } from "vitest";
import type { Page } from "playwright-core";
import { fakeStint } from "../support/fake.ts";
import { browserPath, phone, visit } from "./support/browser.ts";
import { busyNight } from "./support/busy-night.ts";
import { startHoldingProxy } from "./support/holding-proxy.ts";
import { overflow } from "./support/page.ts";
import { serve } from "../support/serve.ts";

const mark = (page: Page, words: RegExp) =>
  page.getByRole("banner").getByRole("status").filter({ hasText: words });

describe.skipIf(browserPath === undefined)("a server that stops responding", () => {
  test("the page says since when the server does not respond, and recovers", async () => {
    const proxy = await startHoldingProxy(await serve({ stint: fakeStint(busyNight) }));
    const { page } = await visit(proxy.url);
    await mark(page, /^Live$/).waitFor();

    proxy.hold();
    await mark(page, /^Not responding since \d\d:\d\d:\d\d$/).waitFor();
    expect(await mark(page, /^Live$/).count()).toBe(0);
    await page.getByRole("alert").getByText("does not respond").waitFor();
    await page.setViewportSize(phone);
    expect(await overflow(page)).toBe(0);
    const pause = page.getByRole("button", { name: "Pause updating" });
    expect((await pause.boundingBox())?.x).toBeLessThan(phone.width - 60);

    proxy.release();
    await mark(page, /^Live$/).waitFor();
    expect(await page.getByRole("alert").getByText("does not respond").count()).toBe(0);
  }, 240_000);

  test("a stream that went silent is opened again while the server responds", async () => {
    const proxy = await startHoldingProxy(await serve({ stint: fakeStint(busyNight) }));
    const { page } = await visit(proxy.url);
    await mark(page, /^Live$/).waitFor();

    // What is open is held for ever, as by a proxy that forgot it; new connections work.
    proxy.hold(true);
    await mark(page, /^(Not responding|Polling)/).waitFor();
    await mark(page, /^Live$/).waitFor();
    expect(await page.getByRole("alert").getByText("does not respond").count()).toBe(0);
  }, 240_000);

  test("figures that stop while the server responds are not shown as live", async () => {
    let hangs = false;
    const asked = fakeStint({
      ...busyNight,
      health: async () => {
        if (hangs) await new Promise(() => undefined);
        return typeof busyNight.health === "function" ? busyNight.health() : busyNight.health;
      },
    });
    const { page } = await visit(await serve({ stint: asked }));
    await mark(page, /^Live$/).waitFor();
    hangs = true;
    await mark(page, /^No fresh figures since \d\d:\d\d:\d\d$/).waitFor();
    expect(await mark(page, /^Live$/).count()).toBe(0);
  }, 240_000);
});
