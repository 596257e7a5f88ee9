/** axe on a selection, dialogs, a job and the operations. accessibility.test.ts checks the lists. */
import { entry } from "stint";
import { describe, expect, test } from "vitest";
import { browserPath, visit } from "./support/browser.ts";
import { dieOf, embed, installation } from "../support/installation.ts";
import { faults, go } from "./support/page.ts";
import { inLab } from "../../../stint/test/support/lab.ts";

describe.skipIf(browserPath === undefined)("accessibility of jobs", () => {
  test.runIf(inLab)("lists, a job, dialogs and their results", { timeout: 240_000 }, async () => {
    const { stint, serve } = await installation();
    const [dead] = await dieOf(stint, (n) => (n === 0 ? new TypeError("no card") : new Error("refused")), 3);
    await stint.enqueueMany([entry(embed, { n: 1 }), entry(embed, { n: 2 }, { delay: "1h", tenant: "a" })]);
    await stint.cancel((await stint.enqueue(embed, { n: 3 })).id, { reason: "not needed" });
    const address = await serve({ environment: { name: "live", production: true } });
    const { page, problems } = await visit(`${address}jobs`);

    await page
      .getByRole("row", { name: /scheduled/ })
      .getByRole("checkbox")
      .click();
    await page.getByText("1 job selected").waitFor();
    expect(await faults(page)).toEqual([]);
    await page.goto(`${address}jobs?state=ready,scheduled&kind=embed-chapter`);
    await page.getByRole("button", { name: "Cancel …" }).click();
    await page.getByRole("dialog").getByText("2 jobs", { exact: true }).waitFor();
    expect(await faults(page)).toEqual([]);
    await page.getByRole("dialog").getByLabel("Reason").fill("no longer");
    await page.getByLabel("This is production").fill("live");
    await page.getByRole("button", { name: "Cancel 2 jobs" }).click();
    await page.getByText("Finished.").waitFor();
    expect(await faults(page)).toEqual([]);

    await go(page, `jobs/${dead}`);
    await page.getByText("Stack", { exact: true }).click();
    expect(await faults(page)).toEqual([]);
    await go(page, "operations");
    await page.getByRole("row", { name: "Cancel" }).waitFor();
    expect(await faults(page)).toEqual([]);
    expect(problems).toEqual([]);
  });
});
