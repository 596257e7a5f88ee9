/** What the role `view` sees, and what the server refuses it regardless of the page. */
import { describe, expect, test } from "vitest";
import { browserPath, visit } from "./support/browser.ts";
import { dieOf, installation } from "../support/installation.ts";

describe.skipIf(browserPath === undefined)("the role view", () => {
  test("sees jobs without payloads and cannot act, by the page or by request", async () => {
    const { stint, serve } = await installation();
    const [id] = await dieOf(stint, () => new Error("refused"), 1, { key: "secret-key" });
    const address = await serve({ authorize: () => ({ user: "eve", role: "view" }) });
    const { page, problems } = await visit(`${address}jobs?state=dead`);

    await page.locator("tbody tr[data-row]").first().waitFor();
    expect(await page.getByRole("checkbox").count()).toBe(0);
    const all = page.getByRole("button", { name: "Replay …" });
    expect(await all.getAttribute("aria-disabled")).toBe("true");
    expect(await all.getAttribute("title")).toContain("Your role is view only.");
    await all.click({ force: true });
    expect(await page.getByRole("dialog").count()).toBe(0);
    // x selects nothing either.
    for (const key of ["j", "x"]) await page.keyboard.press(key);
    expect(await page.getByText("selected").count()).toBe(0);

    await page.keyboard.press("Enter");
    await page.getByText("Hidden: your role may not see payloads.").waitFor();
    expect(await page.getByRole("button", { name: "Replay …" }).getAttribute("aria-disabled")).toBe("true");
    expect(problems).toEqual([]);

    const status = await page.evaluate(
      async ({ base, id }) => {
        const post = async (path: string, body: object): Promise<number> => {
          const headers = { "content-type": "application/json" };
          const response = await fetch(`${base}api/${path}`, {
            method: "POST",
            headers,
            body: JSON.stringify(body),
          });
          return response.status;
        };
        const filter = { state: ["dead"] };
        return [
          await post(`jobs/${id}/replay`, { reason: "mine" }),
          await post(`jobs/${id}/cancel`, {}),
          await post(`jobs/${id}/run-now`, {}),
          await post("operations/preview", { action: "replay", filter }),
          await post("operations", { action: "replay", filter, reason: "mine" }),
          await post(`operations/${id}/abort`, {}),
        ];
      },
      { base: address, id: id! },
    );
    expect(status).toEqual([403, 403, 403, 403, 403, 403]);
    expect((await stint.get(id!))?.state).toBe("dead");
    expect(await stint.audit(id!)).toEqual([]);
  });
});
