/** Dependencies on the screen Controls: live values, and a change that sends only what was changed. */
import { describe, expect, test } from "vitest";
import { fakeStint } from "../support/fake.ts";
import { serve } from "../support/serve.ts";
import { browserPath, visit } from "./support/browser.ts";
import { busyNight } from "./support/busy-night.ts";
import { faults } from "./support/page.ts";

describe.skipIf(browserPath === undefined)("dependencies", () => {
  test("they are shown with what is left, changed, paused and resumed", async () => {
    const stint = fakeStint(busyNight);
    const url = await serve({ stint, environment: { name: "live", production: true } });
    const { page, problems } = await visit(`${url}controls`);
    const row = (name: string) =>
      page.getByRole("table", { name: "Dependencies" }).getByRole("row", { name });
    await row("openai").getByText("held back").waitFor();
    expect(await row("openai").innerText()).toMatch(
      /used by explain-response[^]*and 2 more[^]*15 of 15[^]*lowered from 30[^]*3 of 10 tokens[^]*812,600 used[^]*resets/,
    );
    expect(await row("mail-relay").innerText()).toMatch(/3 of 8[^]*declared 16/);

    const dialog = page.getByRole("dialog");
    const confirm = async (verb: string) => {
      await dialog.getByLabel("Reason").fill("incident 12");
      await dialog.getByLabel("This is production").fill("live");
      await dialog.getByRole("button", { name: verb, exact: true }).click();
      await dialog.waitFor({ state: "detached" });
    };
    const sent = (name: string) => stint.calls.filter((call) => call.name === name).map(({ args }) => args);
    await page.getByRole("button", { name: "Change dependency openai" }).click();
    await dialog.getByLabel("Rate", { exact: true }).fill("many");
    const set = dialog.getByRole("button", { name: "Set", exact: true });
    expect(await set.getAttribute("title")).toBe("Rate must be a whole number.");
    await dialog.getByLabel("Rate", { exact: true }).fill("120");
    await dialog.getByLabel("Quota", { exact: true }).fill("");
    expect(await faults(page)).toEqual([]);
    await confirm("Set");
    await page.getByRole("button", { name: "Change dependency mail-relay" }).click();
    await dialog.getByRole("button", { name: "Fill in the declared values" }).click();
    await confirm("Set");
    const by = { reason: "incident 12", actor: expect.any(String) };
    expect(sent("setDependency")).toEqual([
      ["openai", { rate: { limit: 120, per: "1 min", burst: 10 }, quota: null }, by],
      ["mail-relay", null, by],
    ]);
    await page.getByRole("button", { name: "Pause dependency openai" }).click();
    await confirm("Pause");
    await page.getByRole("button", { name: "Resume dependency partner-api" }).first().click();
    await confirm("Resume");
    expect([sent("pause")[0]?.[0], sent("resume")[0]?.[0]]).toEqual([
      { dependency: "openai" },
      { dependency: "partner-api" },
    ]);
    expect(problems).toEqual([]);
  });
});
