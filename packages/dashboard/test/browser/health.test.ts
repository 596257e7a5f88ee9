/** The Health screen in a real browser. */
import type { Page } from "playwright-core";
import { entry, handle, silentLogger } from "stint";
import { describe, expect, test } from "vitest";
import { startWorker } from "../../../stint/test/support/watch.ts";
import { emptyHealth, fakeStint } from "../support/fake.ts";
import { browserPath, desktop, phone, visit } from "./support/browser.ts";
import { busyNight, health, workers } from "./support/busy-night.ts";
import { embed, installation, receipt } from "../support/installation.ts";
import { overflow } from "./support/page.ts";
import { quick, serve } from "../support/serve.ts";
import { inLab, slice } from "../../../stint/test/support/lab.ts";

const row = (page: Page, queue: string) =>
  page.getByRole("row").filter({ has: page.getByRole("rowheader", { name: queue }) });

const alert = (page: Page, text: string) => page.getByRole("alert").filter({ hasText: text });

describe.skipIf(browserPath === undefined)("health", () => {
  test("real jobs appear without a reload, and disappear when a worker ran them", async () => {
    const { stint, serve } = await installation();
    const { page, problems } = await visit(await serve(quick));
    await page.getByText("No job has been enqueued yet").waitFor();

    await stint.enqueueMany([entry(receipt, { n: 1 }), entry(receipt, { n: 2 }), entry(embed, { n: 3 })]);
    const mail = row(page, "mail");
    await mail.waitFor();
    await expect.poll(async () => await mail.getByRole("link", { name: "2", exact: true }).count()).toBe(1);
    await page.getByText("No worker is running.").waitFor();

    await startWorker(stint, {
      pools: { mail: 2, default: 1 },
      handlers: [handle(receipt, async () => {}), handle(embed, async () => {})],
    });
    await expect.poll(async () => await mail.innerText(), { timeout: 60_000 }).toContain("empty");
    await expect.poll(async () => await page.getByText("No worker is running.").count()).toBe(0);
    expect(problems).toEqual([]);
  });

  test("queues have the server's order, and each has its standing", async () => {
    const url = await serve({ stint: fakeStint(busyNight) });
    const { page, problems } = await visit(url);
    await row(page, "notification").waitFor();
    expect(await page.getByRole("rowheader").allInnerTexts()).toEqual(
      health().queues.map(({ queue }) => queue),
    );
    expect(await row(page, "notification").innerText()).toMatch(
      /22 min 14 s[^]*target 5 min[^]*late[^]*by 17 min 14 s/,
    );
    expect(await row(page, "inference").innerText()).toMatch(/soon[^]*in 4 min 10 s/);
    expect(await row(page, "embedding").innerText()).toContain("ok");
    expect(await row(page, "webhook/partner-eu").innerText()).toMatch(/no worker[^]*not draining/);
    expect(await alert(page, "no worker serves it").innerText()).toContain("deliver-webhook");
    expect(problems).toEqual([]);
  });

  test("a name with a slash leads to its own queue, and figures lead to their jobs", async () => {
    const url = await serve({ stint: fakeStint(busyNight) });
    const { page } = await visit(url);
    await page.getByRole("link", { name: "webhook/partner-eu", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "webhook/partner-eu" }).waitFor();
    await page.reload();
    await page.getByRole("heading", { level: 1, name: "webhook/partner-eu" }).waitFor();
    await page.goBack();
    await row(page, "notification").getByRole("link", { name: "184k" }).click();
    await page.getByRole("heading", { level: 1, name: "Jobs" }).waitFor();
    expect(page.url()).toBe(`${url}jobs?queue=notification&state=ready`);
  });

  test.each(slice(["light", "dark"] as const, (scheme) => scheme === "dark"))(
    "on a phone, %s, every queue is a card without clipped text",
    async (colorScheme) => {
      const url = await serve({ stint: fakeStint(busyNight) });
      const { page, problems } = await visit(url, { viewport: phone, colorScheme });
      const card = row(page, "notification");
      await card.waitFor();
      expect(await overflow(page)).toBe(0);
      const box = await card.boundingBox();
      expect(box?.width).toBeLessThanOrEqual(phone.width);
      for (const title of ["Drains in", "Retries", "Dead"]) {
        // The title of each figure, which wide screens show in the table header.
        const shown = await card
          .locator(`[data-title="${title}"]`)
          .evaluate((cell) => getComputedStyle(cell, "::before").content);
        expect(shown).toBe(`"${title}"`);
      }
      expect(problems).toEqual([]);
    },
  );

  test.runIf(inLab)("without a worker the screen shows how to start one", async () => {
    const night = { ...health(), workers: 0 };
    const { page } = await visit(await serve({ stint: fakeStint({ ...busyNight, health: () => night }) }));
    expect(await alert(page, "No worker is running").innerText()).toContain("npx stint worker");
  });

  test("a worker that stopped responding is listed, and still counts", async () => {
    const { page } = await visit(await serve({ stint: fakeStint(busyNight) }));
    const silent = alert(page, "stopped responding");
    expect(await silent.innerText()).toMatch(
      /A worker[^]*inference-2 on gpu-2, pid 611, for 1 min 32 s: 12 slots/,
    );
    const all = { ...busyNight, workers: () => workers().filter(({ id }) => id !== "inference-2") };
    const { page: calm } = await visit(await serve({ stint: fakeStint(all) }));
    await row(calm, "notification").waitFor();
    expect(await calm.getByText("stopped responding").count()).toBe(0);
  });

  test.runIf(inLab)("a kind that waits in two queues counts as one kind", async () => {
    const [first] = health().unserved;
    const night = { ...health(), unserved: [first, { ...first, queue: "default" }] };
    const { page } = await visit(await serve({ stint: fakeStint({ ...busyNight, health: () => night }) }));
    expect(await alert(page, "no worker serves").innerText()).toMatch(/^Jobs of one kind are ready/);
  });

  test("stale figures are marked, with the server's message", async () => {
    let away = false;
    const stint = fakeStint({
      ...busyNight,
      health: () => {
        if (away) throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
        return health();
      },
    });
    const { page } = await visit(await serve({ stint, logger: silentLogger, ...quick }));
    await page.getByText("Live", { exact: true }).waitFor();
    away = true;
    await page.getByText(/No fresh figures since[^]*The database does not respond/).waitFor();
    // The last figures stay: during an incident old figures are better than none.
    await row(page, "notification").waitFor();
    away = false;
    await page.getByText("Live", { exact: true }).waitFor({ timeout: 60_000 });
    expect(await page.getByText("No fresh figures.").count()).toBe(0);
  });

  test.runIf(inLab)("an unavailable database is reported, and the page recovers", async () => {
    let away = true;
    const stint = fakeStint({
      ...busyNight,
      health: () => {
        if (away) throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
        return emptyHealth;
      },
    });
    const { page } = await visit(await serve({ stint, logger: silentLogger, ...quick }), {
      viewport: desktop,
    });
    await page.getByRole("alert").first().waitFor();
    expect(await page.locator("body").innerText()).not.toContain("ECONNREFUSED");
    away = false;
    await page.getByText("No job has been enqueued yet").waitFor({ timeout: 60_000 });
  });
});
