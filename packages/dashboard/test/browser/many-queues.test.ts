/** Health with 500 queues on a real installation. */
import { describe, expect, test } from "vitest";
import { fillQueues } from "../../../stint/test/support/fill-queues.ts";
import { browserPath, visit } from "./support/browser.ts";
import { installation } from "../support/installation.ts";
import { overflow } from "./support/page.ts";
import { inLab } from "../../../stint/test/support/lab.ts";

describe.skipIf(browserPath === undefined)("500 queues", () => {
  test.runIf(inLab)(
    "Health draws the first fifty, and the others on request",
    async () => {
      const { fresh, serve } = await installation();
      await fillQueues(fresh, 500);
      const { page, problems } = await visit(await serve());
      await page.getByText("Live", { exact: true }).waitFor();
      await page.getByText("50 of 500 shown").waitFor();
      const rows = page.getByRole("rowheader");
      expect(await rows.count()).toBe(50);
      expect(await overflow(page)).toBe(0);

      await page.getByRole("button", { name: "Show 50 more" }).click();
      await page.getByText("100 of 500 shown").waitFor();
      await page.getByRole("button", { name: "Show all" }).click();
      await expect.poll(() => rows.count(), { timeout: 60_000 }).toBe(500);
      expect(problems).toEqual([]);
    },
    180_000,
  );
});
