/** Cases that pass too quickly on a real installation: a long operation, a search that stops early, refusals. */
import { WrongStateError } from "stint";
import type { Operation } from "stint/inspect";
import { describe, expect, test } from "vitest";
import { fakeStint, jobId } from "../support/fake.ts";
import { browserPath, visit } from "./support/browser.ts";
import { eventually } from "../support/eventually.ts";
import { busyNight, jobRows } from "./support/busy-night.ts";
import { go } from "./support/page.ts";
import { serve } from "../support/serve.ts";
import { inLab } from "../../../stint/test/support/lab.ts";

const running: Operation = {
  id: jobId,
  action: "cancel",
  filter: { state: ["ready"], kind: "send-digest" },
  reason: "wrong digest",
  actor: "ada",
  state: "running",
  createdAt: new Date(),
  endedAt: null,
  matched: { count: 10_000, capped: true },
  done: 2_500,
  skipped: 3,
  changed: null,
};

const asOf = "2026-01-01T08:00:00.123456Z";

describe.skipIf(browserPath === undefined)("bulk", () => {
  test("an operation shows its progress, and is aborted from its dialog", async () => {
    let now = running;
    const stint = fakeStint({
      ...busyNight,
      preview: { matched: running.matched, sample: jobRows().slice(0, 3), asOf },
      begin: running,
      operation: () => now,
      operations: () => [now],
      abort: () => (now = { ...now, state: "aborted", endedAt: new Date() }),
    });
    const address = await serve({ stint });
    const { page, problems } = await visit(`${address}jobs?state=ready`);
    await page.getByText("10,000+ jobs match").waitFor();
    await page.getByRole("button", { name: "Cancel …" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("10,000+ jobs", { exact: true }).waitFor();
    await dialog.getByLabel("Reason").fill("wrong digest");
    await dialog.getByRole("button", { name: "Cancel 10,000+ jobs" }).click();

    await dialog.getByText("2,500 cancelled").waitFor();
    const bar = dialog.getByRole("progressbar");
    expect(await bar.getAttribute("aria-valuenow")).toBe("25");
    now = { ...now, done: 5_000 };
    await eventually(() => bar.getAttribute("aria-valuenow")).toBe("50");
    await dialog.getByRole("button", { name: "Abort" }).click();
    await dialog.getByText("Aborted. What was done stays done.").waitFor();
    expect(stint.calls.filter(({ name }) => name === "abort")).toMatchObject([{ args: [jobId] }]);
    expect(await dialog.getByRole("button", { name: "Abort" }).count()).toBe(0);
    expect(stint.calls.find(({ name }) => name === "begin")?.args.slice(0, 2)).toEqual([
      "cancel",
      { state: ["ready"] },
    ]);
    expect(problems).toEqual([]);
  });

  test.runIf(inLab)(
    "the preview counts to its end, and the operation acts on the previewed jobs",
    async () => {
      const matched = { count: 343, capped: true, next: jobId };
      const stint = fakeStint({
        ...busyNight,
        preview: { matched, sample: jobRows().slice(0, 1), asOf },
        count: ({ after }: { after?: string }) =>
          after === undefined ? matched : { count: 2_990, capped: false },
        begin: { ...running, matched: { count: 3_333, capped: false }, done: 0 },
        operation: {
          ...running,
          state: "finished",
          matched: { count: 3_333, capped: false },
          done: 3_300,
          changed: 33,
        },
      });
      const { page, problems } = await visit(`${await serve({ stint })}jobs?state=ready&tag=x`);
      await page.getByRole("button", { name: "Cancel …" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText("3,333 jobs", { exact: true }).waitFor();
      await dialog.getByLabel("Reason").fill("wrong digest");
      await dialog.getByRole("button", { name: "Cancel 3,333 jobs" }).click();
      await dialog.getByText("33 had changed meanwhile").waitFor();
      expect(stint.calls.find(({ name }) => name === "begin")?.args[2]).toMatchObject({
        preview: { asOf, matched: { count: 3_333, capped: false } },
      });
      expect(
        stint.calls.findLast(({ name, args }) => name === "count" && "after" in (args[0] as object))?.args,
      ).toEqual([{ state: ["ready"], tag: "x", after: jobId }]);
      expect(problems).toEqual([]);
    },
  );

  test.runIf(inLab)("the list of operations can abort one", async () => {
    let now = running;
    const stint = fakeStint({
      ...busyNight,
      operations: () => [now],
      abort: () => (now = { ...now, state: "aborted" }),
    });
    const { page, problems } = await visit(`${await serve({ stint })}operations`);
    const row = page.getByRole("row", { name: "Cancel" });
    await row.getByRole("button", { name: "Abort" }).click();
    await row.getByText("aborted").waitFor();
    expect(await row.innerText()).toContain("wrong digest");
    expect(problems).toEqual([]);
  });

  test.runIf(inLab)("lists fit into every width", async () => {
    const long = jobRows().map((job) =>
      Object.assign(job, {
        kind: `${job.kind}/${"very-long-name".repeat(4)}`,
        queue: "webhook/partner-eu-central-1/priority",
        tenant: "a-tenant-with-a-rather-long-name",
        key: "receipt:".repeat(20),
      }),
    );
    const stint = fakeStint({ ...busyNight, jobs: { jobs: long, next: "more", partial: false } });
    const { page, problems } = await visit(`${await serve({ stint })}jobs`);
    for (const path of ["jobs?state=dead&kind=send-receipt&since=24h", "dead"]) {
      await go(page, path);
      await page.waitForURL(`**/${path}`);
      await page.locator("tbody tr[data-row]").first().waitFor();
      for (const width of [1920, 1440, 1280, 1024, 900, 800, 740, 640, 390, 320]) {
        await page.setViewportSize({ width, height: 800 });
        const beyond = await page.evaluate(
          () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
        );
        expect({ path, width, beyond }).toEqual({ path, width, beyond: 0 });
      }
    }
    expect(problems).toEqual([]);
  });

  test.runIf(inLab)("a refusal for one selected job is shown, and the others are done", async () => {
    const rows = jobRows().filter(({ state }) => state === "ready");
    const stint = fakeStint({
      ...busyNight,
      jobs: { jobs: rows, next: null, partial: false },
      cancel: (id: string) => {
        if (id === rows[0]?.id) throw new WrongStateError(id, "succeeded", "cancel", ["ready"]);
        return "cancelled";
      },
    });
    const { page } = await visit(`${await serve({ stint })}jobs?state=ready`);
    await page.getByRole("checkbox", { name: "Select all rows of this page" }).click();
    await page
      .getByRole("region", { name: "Selected jobs" })
      .getByRole("button", { name: "Cancel …" })
      .click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: `Cancel ${rows.length} jobs` }).click();
    await dialog.getByText(`${rows.length - 1} cancelled of ${rows.length}.`).waitFor();
    expect(await dialog.innerText()).toContain("1 job could not be");
    expect(await dialog.innerText()).toContain(rows[0]!.id);
  });
});
