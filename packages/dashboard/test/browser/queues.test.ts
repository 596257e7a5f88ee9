/** Queues, one queue, Workers and Slow in a real browser. */
import { entry, handle } from "stint";
import { describe, expect, test } from "vitest";
import { startWorker } from "../../../stint/test/support/watch.ts";
import { fakeStint } from "../support/fake.ts";
import { browserPath, visit } from "./support/browser.ts";
import { busyNight, slowId } from "./support/busy-night.ts";
import { installation, receipt } from "../support/installation.ts";
import { serve } from "../support/serve.ts";
import { go } from "./support/page.ts";
import { inLab } from "../../../stint/test/support/lab.ts";

describe.skipIf(browserPath === undefined)("queues, workers, slow", () => {
  test("a queue has six charts, a range in the address, and its kinds", async () => {
    const stint = fakeStint(busyNight);
    const { page, problems } = await visit(`${await serve({ stint })}queues`);
    await page
      .getByRole("table", { name: "Queues" })
      .getByRole("link", { name: "notification", exact: true })
      .click();
    await page.locator(".chart canvas").nth(5).waitFor();
    const oldest = page.getByRole("img", { name: /^Oldest ready\. Age: .+ now, .+ at most\.$/ });
    await oldest.waitFor();

    await page.getByRole("button", { name: "24h" }).click();
    await page.waitForURL((url) => url.searchParams.get("range") === "24h");
    await page.getByText("one point is 5 min").waitFor();
    expect(stint.calls.findLast(({ name }) => name === "series")?.args).toEqual([
      { queue: "notification", range: "24h" },
    ]);
    await page.reload();
    await page.getByText("one point is 5 min").waitFor();
    expect(await page.getByRole("button", { name: "24h" }).getAttribute("aria-pressed")).toBe("true");

    const kinds = page.getByRole("region", { name: "Kinds" });
    expect(await kinds.getByRole("rowheader").allInnerTexts()).toEqual(["send-receipt", "send-digest"]);
    expect(await kinds.innerText()).toContain("A lease of 90 s would spare the renewals.");
    expect(problems).toEqual([]);
  });

  test.runIf(inLab)("an unknown range is the default, and an unknown queue is reported", async () => {
    const url = await serve({ stint: fakeStint(busyNight) });
    const { page } = await visit(`${url}queues/notification?range=9y`);
    await page.getByText("one point is 1 min").waitFor();
    await page.goto(`${url}queues/nowhere`);
    await page.getByText("This queue has no jobs and no kinds").waitFor();
    expect(await page.title()).toBe("nowhere · Stint");
  });

  test("a real queue shows its throughput", async () => {
    const { stint, serve } = await installation();
    await stint.enqueueMany([entry(receipt, { n: 1 }), entry(receipt, { n: 2 })]);
    const { worker } = await startWorker(stint, {
      pools: { mail: 2 },
      handlers: [handle(receipt, async () => {})],
    });
    const { page, problems } = await visit(`${await serve()}queues/mail`);
    await page.locator(".chart canvas").nth(5).waitFor();
    await expect
      .poll(async () => await page.getByRole("region", { name: "Kinds" }).innerText(), { timeout: 60_000 })
      .toContain("send-receipt");

    await page.keyboard.press("g");
    await page.keyboard.press("w");
    await page.getByRole("rowheader", { name: worker.id }).waitFor();
    expect(await page.getByRole("row").filter({ hasText: worker.id }).innerText()).toMatch(
      /mail\s2[^]*send-receipt/,
    );
    expect(problems).toEqual([]);
  });

  test("workers: unresponsive, draining and old ones stand out", async () => {
    const { page, problems } = await visit(`${await serve({ stint: fakeStint(busyNight) })}workers`);
    const worker = (id: string) => page.locator(`tr[id="Workers-${id}"]`);
    await worker("notification-1").waitFor();
    expect(await worker("notification-1").innerText()).toMatch(
      /13 of 13 busy · 4 waiting[^]*312 ms[^]*1\.3 GB/,
    );
    expect(await worker("notification-2").innerText()).toMatch(/draining[^]*8 still running[^]*behind/);
    expect(await worker("inference-1").innerText()).toContain("polling (no notifications)");
    expect(await worker("inference-2").innerText()).toMatch(/not responding[^]*for 1 min 32 s/);
    await page.getByText("1 worker behind the newest version.").waitFor();
    expect(await page.getByRole("region", { name: "Kinds that no worker serves" }).innerText()).toContain(
      "deliver-webhook",
    );
    expect(problems).toEqual([]);
  });

  test("queues are sorted by a click on a column, and filtered by part of a name", async () => {
    const { page, problems } = await visit(`${await serve({ stint: fakeStint(busyNight) })}queues`);
    const table = page.getByRole("table", { name: "Queues" });
    const names = async () => await table.getByRole("rowheader").allInnerTexts();
    await table.getByRole("rowheader").first().waitFor();
    const byName = await names();

    await table.getByRole("button", { name: "Ready", exact: true }).click();
    expect((await names())[0]).toBe("notification");
    expect(
      await table.getByRole("columnheader", { name: "Ready", exact: true }).getAttribute("aria-sort"),
    ).toBe("descending");
    await table.getByRole("button", { name: "Ready", exact: true }).click();
    expect((await names()).at(-1)).toBe("notification");
    await table.getByRole("button", { name: "Ready", exact: true }).click();
    expect(await names()).toEqual(byName);

    await page.getByRole("searchbox", { name: "Filter queues" }).fill("INF");
    await page.getByText("1 of 5").waitFor();
    expect(await names()).toEqual(["inference"]);
    expect(problems).toEqual([]);
  });

  test.runIf(inLab)("every column of a whole table sorts by click, none of a paged list", async () => {
    const operation = {
      id: slowId,
      action: "replay" as const,
      filter: { state: ["dead" as const] },
      reason: "the provider is back",
      actor: "ada",
      state: "running" as const,
      createdAt: new Date(),
      endedAt: null,
      matched: { count: 2, capped: false },
      done: 1,
      skipped: 0,
      changed: null,
    };
    const operations = [operation, { ...operation, id: slowId.replace(/.$/, "f"), actor: "zoe" }];
    const { page, problems } = await visit(await serve({ stint: fakeStint({ ...busyNight, operations }) }));
    const heads = page.getByRole("columnheader");
    const unsorted = async () =>
      await heads
        .filter({ hasNot: page.getByRole("button") })
        .filter({ hasText: /\S/ })
        .allInnerTexts();
    for (const screen of ["", "queues", "queues/notification", "workers", "slow", "operations"]) {
      await go(page, screen);
      await page.waitForURL(`**/${screen}`);
      await heads.first().waitFor();
      // The column with the abort button is not sortable.
      expect({ screen, unsorted: await unsorted() }).toEqual({
        screen,
        unsorted: screen === "operations" ? ["Abort"] : [],
      });
    }
    await page.getByRole("button", { name: "By", exact: true }).click();
    await page.getByRole("button", { name: "By", exact: true }).click();
    expect(await page.locator("tbody tr").first().innerText()).toContain("zoe");
    for (const screen of ["jobs", "dead"]) {
      await go(page, screen);
      await page.waitForURL(`**/${screen}`);
      await heads.first().waitFor();
      expect(await heads.getByRole("button").count()).toBe(0);
    }
    expect(problems).toEqual([]);
  });

  test.runIf(inLab)("slow: each job shows why, and opens by keyboard", async () => {
    const { page, problems } = await visit(`${await serve({ stint: fakeStint(busyNight) })}slow`);
    const first = page.getByRole("row").filter({ hasText: slowId });
    await first.waitFor();
    expect(await first.innerText()).toMatch(/6 min 12 s[^]*20 times as long[^]*slower than usual/);
    await page.keyboard.press("j");
    expect(await first.getAttribute("aria-current")).toBe("true");
    await page.keyboard.press("Enter");
    await page.waitForURL(new RegExp(`/jobs/${slowId}$`));
    expect(problems).toEqual([]);
  });

  test.runIf(inLab)("an empty list of slow jobs explains itself", async () => {
    const { page } = await visit(`${await serve({ stint: fakeStint() })}slow`);
    await page.getByText("Nothing is slow").waitFor();
    expect(await page.locator("table").count()).toBe(0);
  });
});
