/** The layout around every screen: navigation, palette, shortcuts, theme, live updates, mount paths. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Page } from "playwright-core";
import { createDashboard } from "#dashboard/index.js";
import { describe, expect, onTestFinished, test } from "vitest";
import { fakeStint, type Fake } from "../support/fake.ts";
import { browserPath, phone, visit } from "./support/browser.ts";
import { busyNight, health, slowId } from "./support/busy-night.ts";
import { quick, serve } from "../support/serve.ts";
import { inLab } from "../../../stint/test/support/lab.ts";

const title = (page: Page, name: string) => page.getByRole("heading", { level: 1, name, exact: true });
const times = (stint: Fake, name: string) => stint.calls.filter((call) => call.name === name).length;

describe.skipIf(browserPath === undefined)("the shell", () => {
  test("every screen opens by its link and by its key", async () => {
    const { page, problems } = await visit(await serve({ stint: fakeStint(busyNight) }));
    const navigation = page.getByRole("navigation", { name: "Screens" });
    await navigation.waitFor();
    const links = await navigation.getByRole("link").all();
    expect(links.length).toBeGreaterThanOrEqual(7);
    for (const link of links) {
      await link.click();
      await title(page, await link.locator(".navigation-title").innerText()).waitFor();
      expect(await link.getAttribute("aria-current")).toBe("page");
    }
    for (const link of links) {
      for (const key of ((await link.getAttribute("aria-keyshortcuts")) ?? "").split(" "))
        await page.keyboard.press(key);
      const name = await link.locator(".navigation-title").innerText();
      await title(page, name).waitFor();
      expect(await page.title()).toBe(`${name} · Stint`);
    }
    expect(problems).toEqual([]);
  });

  test("the palette finds screens, queues, kinds and a job, by keyboard alone", async () => {
    const { page, problems } = await visit(await serve({ stint: fakeStint(busyNight) }));
    await title(page, "Health").waitFor();
    const go = async (typed: string, sort: string) => {
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox", { name: "Screen, queue, kind or job id" }).fill(typed);
      await page.getByRole("option", { selected: true }).filter({ hasText: sort }).waitFor();
      await page.keyboard.press("Enter");
      await expect.poll(async () => await page.getByRole("dialog").count()).toBe(0);
    };
    await go("work", "Screen");
    await page.waitForURL(/\/workers$/);
    await go("queue infer", "Queue");
    await page.waitForURL(/\/queues\/inference$/);
    await go("deliver-web", "Kind");
    await page.waitForURL(/\/jobs\?kind=deliver-webhook$/);
    await go(slowId.toUpperCase(), "Job");
    await page.waitForURL(new RegExp(`/jobs/${slowId}$`));

    await page.keyboard.press("Control+k");
    await page.keyboard.press("Escape");
    expect(await page.getByRole("dialog").count()).toBe(0);
    await page.keyboard.press("?");
    expect(await page.getByRole("dialog", { name: "Keys" }).innerText()).toContain("Select the row");
    expect(problems).toEqual([]);
  });

  test("shortcuts do not fire while typing", async () => {
    const { page } = await visit(`${await serve({ stint: fakeStint(busyNight) })}jobs`);
    await page.getByRole("textbox", { name: "Tenant" }).pressSequentially("gh?");
    expect(await page.getByRole("textbox", { name: "Tenant" }).inputValue()).toBe("gh?");
    expect(await page.getByRole("dialog").count()).toBe(0);
    await title(page, "Jobs").waitFor();
  });

  test.runIf(inLab)("the theme follows the system until one is chosen, and the choice stays", async () => {
    const url = await serve({ stint: fakeStint(busyNight) });
    const { page, problems } = await visit(url, { colorScheme: "dark" });
    const ground = async () =>
      await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    await title(page, "Health").waitFor();
    const dark = await ground();
    await page.emulateMedia({ colorScheme: "light" });
    const light = await ground();
    expect(light).not.toBe(dark);
    await page.getByRole("button", { name: /^Theme: system/ }).click();
    await page.getByRole("button", { name: /^Theme: light/ }).click();
    expect(await ground()).toBe(dark);
    await page.reload();
    await title(page, "Health").waitFor();
    expect(await ground()).toBe(dark);
    expect(problems).toEqual([]);
  });

  test("figures update live; while paused, no request is sent", async () => {
    let ready = 1;
    const night = () => {
      const now = health();
      return { ...now, queues: now.queues.slice(0, 1), total: { ...now.total, ready } };
    };
    const stint = fakeStint({ ...busyNight, health: night });
    const url = await serve({ stint, ...quick });
    const { page, problems } = await visit(url);
    await page.getByText("Live", { exact: true }).waitFor();
    const total = page.getByRole("list", { name: "Totals" });
    await total.getByRole("link", { name: "1", exact: true }).waitFor();
    ready = 4_321;
    await total.getByRole("link", { name: "4,321", exact: true }).waitFor();

    await page.getByRole("button", { name: "Pause updating" }).click();
    await page.getByText("Paused", { exact: true }).waitFor();
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    // Another window, which is not paused, shows that an update was sent meanwhile.
    const other = await visit(url);
    for (ready of [5, 6, 7])
      await other.page
        .getByRole("list", { name: "Totals" })
        .getByRole("link", { name: String(ready), exact: true })
        .waitFor();
    expect(await total.getByRole("link", { name: "4,321", exact: true }).count()).toBe(1);
    expect(asked).toEqual([]);
    await page.getByRole("button", { name: "Resume updating" }).click();
    await total.getByRole("link", { name: "7", exact: true }).waitFor();
    expect(problems).toEqual([]);
  });

  test.runIf(inLab)("a hidden page sends no request, and catches up when visible", async () => {
    let ready = 1;
    const stint = fakeStint({
      ...busyNight,
      health: () => ({ ...health(), total: { ...health().total, ready } }),
    });
    const url = await serve({ stint, ...quick });
    const { page } = await visit(url);
    const shown = (of: Page, figure: number) =>
      of.getByRole("list", { name: "Totals" }).getByRole("link", { name: String(figure), exact: true });
    const setHidden = async (hidden: boolean) =>
      await page.evaluate((hidden) => {
        Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
        document.dispatchEvent(new Event("visibilitychange"));
      }, hidden);
    await shown(page, 1).waitFor();
    await setHidden(true);
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    const other = await visit(url);
    for (ready of [5, 6]) await shown(other.page, ready).waitFor();
    expect(await shown(page, 1).count()).toBe(1);
    expect(asked).toEqual([]);
    await setHidden(false);
    await shown(page, 6).waitFor();
  });

  test.runIf(inLab)("lists are refreshed at their own interval", async () => {
    const stint = fakeStint(busyNight);
    const { page } = await visit(`${await serve({ stint, ...quick })}workers`, { clock: true });
    await page.getByText("Live", { exact: true }).waitFor();
    await page.getByRole("rowheader").first().waitFor();
    const before = times(stint, "workers");
    await page.clock.fastForward(4_000);
    await expect.poll(() => times(stint, "workers"), { timeout: 60_000 }).toBeGreaterThan(before);
  });

  test.runIf(inLab)("without events the page polls", async () => {
    const stint = fakeStint(busyNight);
    const url = await serve({ stint });
    const { page } = await visit(url, { clock: true });
    await page.route(
      "**/api/events",
      async (route) => await route.fulfill({ status: 502, body: "no streams here" }),
    );
    await page.reload();
    await page.getByText("Polling", { exact: true }).waitFor();
    await page.getByRole("rowheader", { name: "notification" }).waitFor();
    const before = times(stint, "health");
    await expect
      .poll(
        async () => {
          await page.clock.fastForward(5_000);
          return times(stint, "health");
        },
        { timeout: 60_000 },
      )
      .toBeGreaterThan(before);
  });

  test("mounted below a path, links, assets, keys and reloads stay below it", async () => {
    const dashboard = createDashboard({ stint: fakeStint(busyNight), basePath: "/ops/jobs" });
    const server = createServer((req, res) => dashboard.node(req, res));
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    onTestFinished(async () => {
      await dashboard.close();
      server.closeAllConnections();
      await new Promise((resolve) => void server.close(resolve));
    });
    const { port } = server.address() as AddressInfo;
    // Without the trailing slash, as a user types it.
    const { page, problems } = await visit(`http://127.0.0.1:${port}/ops/jobs`);
    await page.getByRole("link", { name: "inference", exact: true }).click();
    await page.waitForURL(/\/ops\/jobs\/queues\/inference$/);
    await page.locator(".chart canvas").first().waitFor();
    await page.reload();
    await title(page, "inference").waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("s");
    await page.waitForURL(/\/ops\/jobs\/slow$/);
    expect(problems).toEqual([]);
  });

  test("the environment, the user and the role are visible", async () => {
    const url = await serve({
      stint: fakeStint(busyNight),
      environment: { name: "production-eu", production: true },
      authorize: () => ({ user: "mira@example.com", role: "view" }),
    });
    const { page, problems } = await visit(url);
    const head = page.getByRole("banner");
    await head.getByText("production-eu").waitFor();
    expect(await head.innerText()).toMatch(/mira@example\.com\s+view only/);
    await page.setViewportSize(phone);
    expect(await head.getByText("production-eu").isVisible()).toBe(true);
    expect(problems).toEqual([]);
  });

  test.runIf(inLab)("an unknown URL is reported as such", async () => {
    const { page } = await visit(`${await serve({ stint: fakeStint(busyNight) })}flows`);
    await page.getByText("There is no such screen").waitFor();
    await page.getByRole("link", { name: "Open Health" }).click();
    await title(page, "Health").waitFor();
    expect(await page.getByRole("rowheader").count()).toBeGreaterThan(0);
  });
});
