/** Waiting and busiest tenants, and priorities, on the Queues screen; on the real server and real Postgres. */
import { entry, handle } from "stint";
import { describe, expect, test } from "vitest";
import { startWorker } from "../../../stint/test/support/watch.ts";
import { browserPath, visit } from "./support/browser.ts";
import { eventually } from "../support/eventually.ts";
import { embed, installation, receipt } from "../support/installation.ts";
import { inLab, slice } from "../../../stint/test/support/lab.ts";

describe.skipIf(browserPath === undefined)("queues: tenants and priorities", () => {
  test("waiting and busiest tenants, and priorities; a tenant links to its jobs", async () => {
    const { stint, serve } = await installation();
    const served = await stint.enqueueMany(
      Array.from({ length: 3 }, (_, n) => entry(receipt, { n }, { tenant: "acme" })),
    );
    const { worker } = await startWorker(stint, {
      pools: { mail: 2 },
      handlers: [handle(receipt, () => undefined)],
    });
    for (const { id } of served) await stint.waitFor(id);
    await worker.stop();
    await stint.enqueueMany([
      ...Array.from({ length: 5 }, (_, n) => entry(embed, { n }, { tenant: "globex" })),
      entry(embed, { n: 6 }, { tenant: "acme", priority: -5 }),
      entry(embed, { n: 7 }),
    ]);

    const { page, problems } = await visit(`${await serve()}queues`);
    const waiting = page.getByRole("region", { name: "Waiting tenants" });
    await eventually(() => waiting.locator("tbody tr").allInnerTexts()).toEqual([
      expect.stringMatching(/^globex\s+5/),
      expect.stringMatching(/^acme\s+1/),
    ]);
    expect(await waiting.getByRole("img", { name: "globex: 5 of 7" }).count()).toBe(1);
    await eventually(() =>
      page.getByRole("region", { name: "Busiest tenants" }).locator("tbody tr").allInnerTexts(),
    ).toEqual([expect.stringMatching(/^acme\s+3/)]);
    expect(
      await page.getByRole("region", { name: "By priority" }).locator("tbody tr").allInnerTexts(),
    ).toEqual([
      expect.stringMatching(/^default\s+-5\s+1\s+0\s+0\s+0/),
      expect.stringMatching(/^default\s+0\s+6\s+0\s+0\s+0/),
    ]);

    await waiting.getByRole("link", { name: "globex" }).click();
    await page.waitForURL(/\/jobs\?state=ready&tenant=globex|\/jobs\?tenant=globex&state=ready/);
    await eventually(() => page.locator("tbody tr[data-row]").count()).toBe(5);
    expect(problems).toEqual([]);
  });

  test.runIf(inLab)("without tenants it explains how to set one", async () => {
    const { stint, serve } = await installation();
    await stint.enqueue(embed, { n: 1 });
    const { page } = await visit(`${await serve()}queues`);
    await page.getByText('{ tenant: "acme" }').waitFor();
    expect(await page.getByRole("region", { name: "By priority" }).count()).toBe(0);
  });

  const failures = [
    { failing: "tenants", shown: ["Busiest tenants", "By priority"], missing: "Waiting tenants" },
    { failing: "stats", shown: ["Waiting tenants"], missing: "By priority" },
  ];

  test.each(slice(failures, ({ failing }) => failing === "tenants"))(
    "a failure of $failing is shown, and so is the rest",
    async ({ failing, shown, missing }) => {
      const { stint, serve } = await installation();
      await stint.enqueueMany([
        entry(embed, { n: 1 }, { tenant: "acme" }),
        entry(embed, { n: 2 }, { priority: 5 }),
      ]);
      const { page } = await visit(`${await serve()}queues`);
      await page.route(new RegExp(`/api/${failing}$`), async (route) => {
        await route.fulfill({
          status: 500,
          json: { error: { code: "INTERNAL", message: "It was too much." } },
        });
      });
      await page.reload();
      await page.getByRole("alert").getByText("It was too much.").waitFor();
      for (const name of shown) await page.getByRole("region", { name }).waitFor();
      expect(await page.getByRole("region", { name: missing }).count()).toBe(0);
    },
  );

  test.runIf(inLab)("of many priorities the first fifty are shown, with a note", async () => {
    const { stint, serve } = await installation();
    await stint.enqueueMany([
      ...Array.from({ length: 60 }, (_, n) => entry(embed, { n }, { priority: n })),
      entry(receipt, { n: 1 }),
    ]);
    const { page } = await visit(`${await serve()}queues`);
    const region = page.getByRole("region", { name: "By priority" });
    await region.getByText("The first 50 of 60.").waitFor();
    expect(await region.locator("tbody tr").count()).toBe(50);
  });

  test.runIf(inLab)("hidden tenants are reported as hidden", async () => {
    const { stint, serve } = await installation();
    await stint.enqueue(embed, { n: 1 }, { tenant: "acme" });
    const authorize = () => ({ user: "eve", role: "view" as const });
    const { page } = await visit(`${await serve({ authorize, redact: ["payload.customer"] })}queues`);
    await page.getByRole("region", { name: "Tenants" }).getByText("right to see payloads").waitFor();
    expect(await page.getByText("acme").count()).toBe(0);
  });
});
