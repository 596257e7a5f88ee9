/** Controls in a real browser, on a real installation. */
import { defineJob, handle, typed } from "stint";
import { describe, expect, test } from "vitest";
import { gate } from "../../../stint/test/support/gate.ts";
import { startWorker } from "../../../stint/test/support/watch.ts";
import { browserPath, phone, visit } from "./support/browser.ts";
import { faults, go, overflow } from "./support/page.ts";
import { eventually } from "../support/eventually.ts";
import { installation } from "../support/installation.ts";

const hostile = "<img src=x onerror=alert(1)>";
const charge = defineJob("charge", {
  payload: typed<{ account: string }>(),
  queue: "payments",
  limits: [{ name: "account", key: ({ account }) => account, max: 1 }],
});

describe.skipIf(browserPath === undefined)("controls", () => {
  test("pauses, limits and admission are shown live, changed and confirmed", async () => {
    const { stint, serve } = await installation({ jobs: [charge] });
    const held = gate();
    await startWorker(stint, {
      pools: { payments: 4 },
      handlers: [handle(charge, async () => await held.opened)],
    });
    for (let n = 0; n < 3; n++) await stint.enqueue(charge, { account: hostile });
    await stint.pauses.pause({ tenant: hostile }, { reason: hostile });
    const { page, problems } = await visit(await serve({ environment: { name: "live", production: true } }));
    await page.getByText("Live", { exact: true }).waitFor();
    await go(page, "controls");

    const pauses = page.getByRole("table", { name: "Pauses" });
    await pauses.getByText(hostile).first().waitFor();
    await page.getByRole("table", { name: "Keys in use" }).getByText("1 of 1").waitFor();
    expect(await page.locator("main img[src]").count()).toBe(0);
    expect(await faults(page)).toEqual([]);

    await page.getByRole("button", { name: "Pause …" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("payments");
    await dialog.getByLabel("For").fill("2 hours or so");
    await dialog.getByLabel("Reason").fill("the provider is down");
    const confirm = dialog.getByRole("button", { name: "Pause", exact: true });
    expect(await confirm.getAttribute("aria-disabled")).toBe("true");
    await dialog.getByLabel("This is production").fill("live");
    await confirm.click();
    await dialog.getByText("pauses.pause.for").waitFor();
    await dialog.getByLabel("For").fill("2h");
    await confirm.click();
    await pauses.getByText("the provider is down").waitFor();

    await page.getByRole("button", { name: "Change key:account", exact: true }).click();
    await dialog.getByLabel("Max").fill("2");
    await dialog.getByLabel("Reason").fill("more");
    await dialog.getByLabel("This is production").fill("live");
    await page.keyboard.press("Enter");
    await dialog.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Set admission …" }).click();
    await dialog.getByLabel("Queue").fill("payments");
    await dialog.getByLabel("Max depth", { exact: true }).fill("3");
    await dialog.getByLabel("When it is full").selectOption("defer");
    await dialog.getByLabel("Reason").fill("too many");
    await dialog.getByLabel("This is production").fill("live");
    expect(await faults(page)).toEqual([]);
    await page.keyboard.press("Enter");
    const admission = page.getByRole("table", { name: "Admission" });
    await admission.getByText("3 of 3").waitFor();
    await page.getByRole("button", { name: "Change admission of payments" }).click();
    await dialog.getByLabel("Max depth per tenant").fill("2");
    await dialog.getByLabel("Max age per tenant").fill("10m");
    await dialog.getByLabel("When a tenant is full").selectOption("shed");
    await dialog.getByLabel("Reason").fill("one tenant floods it");
    await dialog.getByLabel("This is production").fill("live");
    await dialog.getByRole("button", { name: "Set", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    await admission.getByText("2 jobs, up to 10 min old").waitFor();
    await admission.getByText("shed waiting jobs").waitFor();
    await eventually(() => page.getByRole("region", { name: "Changes" }).innerText()).toMatch(
      /set-queue queue:payments[^]*set-limit key:account \(max 1 → 2\) by dashboard: more[^]*pause queue:payments/,
    );

    await page.getByRole("button", { name: "Resume queue payments" }).click();
    await dialog.getByLabel("Reason").fill("it is back");
    await dialog.getByLabel("This is production").fill("live");
    await dialog.getByRole("button", { name: "Resume" }).click();
    await eventually(() => pauses.getByText("the provider is down").count()).toBe(0);
    expect((await stint.pauses.list()).map(({ scope }) => scope)).toEqual(["tenant"]);
    await page.setViewportSize(phone);
    expect(await overflow(page)).toBe(0);
    held.open();
    // The refusal that the page showed is also a line of the browser's console.
    expect(problems.filter((text) => !text.includes("status of 400"))).toEqual([]);
  });
});
