/** One job's screen in a real browser, on the real server and real Postgres. */
import { handle } from "stint";
import { describe, expect, test } from "vitest";
import { until } from "../../../stint/test/support/until.ts";
import { startWorker } from "../../../stint/test/support/watch.ts";
import { browserPath, phone, visit } from "./support/browser.ts";
import { eventually } from "../support/eventually.ts";
import { serve } from "../support/serve.ts";
import { fakeDetail, fakeStint, jobId } from "../support/fake.ts";
import { dieOf, embed, installation } from "../support/installation.ts";
import { inLab } from "../../../stint/test/support/lab.ts";

describe.skipIf(browserPath === undefined)("job", () => {
  test("shows each attempt's error, causes and stack, and why the job is dead", async () => {
    const { stint, serve } = await installation();
    const cause = new Error("connect ECONNREFUSED");
    const [id] = await dieOf(stint, () => new TypeError("no response", { cause }), 1, { key: "receipt:7" });
    const { page, problems } = await visit(`${await serve()}jobs/${id}`);

    await page.getByRole("heading", { level: 1, name: "send-receipt" }).waitFor();
    expect(await page.getByRole("region", { name: "Why is it dead?" }).innerText()).toMatch(/\S{4}/);
    await eventually(() => page.locator(".attempt-chart rect.chart-run").count()).toBe(1);
    expect(await page.getByRole("img", { name: /Attempts: attempt of epoch 1.*failed/ }).count()).toBe(1);

    const life = page.getByRole("region", { name: "Timeline" });
    expect(await life.innerText()).toContain("no response");
    expect(await life.getByRole("list", { name: "Caused by" }).innerText()).toContain("connect ECONNREFUSED");
    const stack = life.locator("details pre");
    expect(await stack.isVisible()).toBe(false);
    await life.getByText("Stack", { exact: true }).click();
    expect(await stack.innerText()).toContain("TypeError: no response");

    const payload = page.getByRole("region", { name: "Payload" });
    expect(await payload.innerText()).toMatch(/n:\s*0/);
    await page.getByRole("link", { name: "receipt:7" }).click();
    await page.waitForURL((url) => url.searchParams.get("key") === "receipt:7");
    expect(problems).toEqual([]);
  });

  test("shows steps, progress, log lines and signals that were not received", async () => {
    const at = new Date();
    const step = { type: "step", state: "done", at, until: null, epoch: 1, tookMs: 812 } as const;
    const detail = fakeDetail(
      { state: "running" },
      {
        steps: [
          { ...step, seq: 1, name: "charge", result: { charge: "c_1" } },
          { ...step, seq: 2, name: "sleep", type: "sleep", result: null, tookMs: null },
          {
            ...step,
            seq: 3,
            name: "signal approved",
            type: "signal",
            state: "waiting",
            until: new Date(at.getTime() + 7_200_000),
            result: null,
            tookMs: null,
          },
        ],
        progress: {
          fraction: 0.4,
          note: "row 400 of 1000",
          checkpoint: { row: 400 },
          checkpointAt: at,
          lines: [{ at, epoch: 1, text: "<b>began</b>" }],
          lineCount: 12,
          at,
        },
        signals: [{ id: jobId, name: "paid", payload: { amount: 3 }, sentAt: at, sentBy: "cli:ann" }],
        stalledMs: 65_000,
      },
    );
    const { page, problems } = await visit(
      `${await serve({ stint: fakeStint({ job: detail, get: detail.job }) })}jobs/${jobId}`,
    );

    const region = page.getByRole("region", { name: "Steps" });
    await region.getByText("charge", { exact: true }).waitFor();
    expect(await region.getByRole("img", { name: "40 % done" }).count()).toBe(1);
    const text = await region.innerText();
    for (const part of [
      "row 400 of 1000",
      "Stalled for",
      '{"charge":"c_1"}',
      "waiting",
      "<b>began</b>",
      "paid",
    ])
      expect(text).toContain(part);
    expect(text).toContain("11 earlier lines");
    expect(problems).toEqual([]);
  });

  test.runIf(inLab)("a payload too large to show has a preview and a full download", async () => {
    const payload = { chapters: Array.from({ length: 40_000 }, (_, n) => `chapter ${n}`) };
    const detail = fakeDetail({ payload });
    const stint = fakeStint({ job: detail, get: detail.job });
    const { page, problems } = await visit(`${await serve({ stint })}jobs/${jobId}`);

    const region = page.getByRole("region", { name: "Payload" });
    await region.getByText("chapters").first().waitFor();
    expect(await region.innerText()).not.toContain('\\"');
    const download = page.waitForEvent("download");
    await region.getByRole("link", { name: "Download the payload" }).click();
    const file = await download;
    expect(file.suggestedFilename()).toBe(`${jobId}-payload.json`);
    const chunks: Buffer[] = [];
    for await (const chunk of await file.createReadStream()) chunks.push(chunk as Buffer);
    expect(JSON.parse(Buffer.concat(chunks).toString())).toEqual(payload);
    expect(problems).toEqual([]);
  });

  test("is replayed only with a reason, and the audit shows actor and reason", async () => {
    const { stint, serve } = await installation();
    const [id] = await dieOf(stint, () => new Error("refused"), 1);
    const address = await serve({ authorize: () => ({ user: "grace", role: "operate" }) });
    const { page, problems } = await visit(`${address}jobs/${id}`);
    await page.getByRole("button", { name: "Replay …" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Replay" }).click({ force: true });
    expect((await stint.get(id!))?.state).toBe("dead");

    await dialog.getByLabel("Reason").fill("fixed");
    await dialog.getByLabel("Reason").press("Enter");
    await dialog.waitFor({ state: "detached" });
    await until(async () => (await stint.get(id!))?.state === "ready", { message: "it is ready" });
    await eventually(() => page.getByRole("region", { name: "Audit" }).innerText()).toMatch(
      /replay by grace: fixed/,
    );
    await page.locator(".state-mark", { hasText: "ready" }).waitFor();
    expect(problems).toEqual([]);
  });

  test("follows a running job to its end, and Esc closes a dialog", async () => {
    const { stint, serve } = await installation();
    let end: () => void = () => undefined;
    const ended = new Promise<void>((resolve) => (end = resolve));
    const { id } = await stint.enqueue(embed, { n: 1 });
    const { seen } = await startWorker(stint, {
      handlers: [
        handle(embed, async () => {
          await ended;
          return { pages: 12 };
        }),
      ],
    });
    await seen("began");
    const { page, problems } = await visit(`${await serve()}jobs/${id}`, { viewport: phone });
    await page.getByRole("region", { name: "How is it running?" }).waitFor();
    await page.getByRole("button", { name: "Cancel …" }).click();
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    expect(await page.evaluate(() => document.activeElement?.textContent)).toContain("Cancel");

    end();
    await page.locator(".state-mark", { hasText: "succeeded" }).waitFor();
    expect(await page.getByRole("region", { name: "Result" }).innerText()).toMatch(/pages:\s*12/);
    expect(await stint.audit(id)).toEqual([]);
    expect(problems).toEqual([]);
  });

  test("redacted values are hidden and large values are cut", async () => {
    const { stint, serve } = await installation();
    const payload = {
      n: 1,
      card: { number: "4242424242424242" },
      note: "a".repeat(2_000),
      items: Array.from({ length: 300 }, (_, n) => n),
    };
    const { id } = await stint.enqueue(embed, payload);
    const { page, problems } = await visit(`${await serve({ redact: ["*.number"] })}jobs/${id}`);
    const shown = page.getByRole("region", { name: "Payload" });
    await shown.getByText("redacted", { exact: true }).waitFor();
    expect(await page.content()).not.toContain("42424242");
    expect(await page.content()).not.toContain("a".repeat(500));
    await shown.getByRole("button", { name: "show all 2,000 characters" }).click();
    await eventually(() => shown.innerText()).toContain("a".repeat(2_000));
    await shown.getByRole("button", { name: /items.*300 items/ }).click();
    await shown.getByRole("button", { name: "show more (200 left)" }).click();
    await eventually(() => shown.locator(".json-number").count()).toBe(301);
    expect(problems).toEqual([]);
  });

  test.runIf(inLab)("the trace is a link if traceUrl is set, and never leads elsewhere", async () => {
    const traceUrl = "https://traces.example.com/trace/{traceId}?from={traceId}";
    const withTrace = (traceId: string) => fakeStint({ job: fakeDetail({}, { traceId }) });
    const id = "4bf92f3577b34da6a3ce929d0e0e4736";
    const linked = await visit(`${await serve({ stint: withTrace(id), traceUrl })}jobs/${jobId}`);
    const link = linked.page.getByRole("link", { name: id });
    expect([await link.getAttribute("href"), await link.getAttribute("rel")]).toEqual([
      `https://traces.example.com/trace/${id}?from=${id}`,
      "noopener noreferrer",
    ]);

    for (const [traceId, url] of [
      ["../../evil?x=", traceUrl],
      [id, undefined],
    ] as const) {
      const options = { stint: withTrace(traceId), ...(url === undefined ? {} : { traceUrl: url }) };
      const { page } = await visit(`${await serve(options)}jobs/${jobId}`);
      await page.getByRole("button", { name: "Copy the trace's id" }).waitFor();
      expect(await page.getByText(traceId, { exact: true }).count()).toBe(1);
      expect(await page.locator("a[href*='traces.example.com']").count()).toBe(0);
    }
    expect(linked.problems).toEqual([]);
  });

  test.runIf(inLab)("copies, also without the clipboard API", async () => {
    const { stint, serve } = await installation();
    const { id } = await stint.enqueue(embed, { n: 1 });
    const { page, problems } = await visit(`${await serve()}jobs/${id}`);
    await page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: undefined }));
    // Awaited before the click, because the text is shown for one second only.
    const copied = page.getByText("copied", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Copy the id" }).click();
    await copied;
    await page.getByRole("link", { name: "Jobs" }).first().click();
    await page.getByRole("textbox", { name: "Tenant" }).focus();
    await page.keyboard.press("ControlOrMeta+V");
    expect(await page.getByRole("textbox", { name: "Tenant" }).inputValue()).toBe(id);
    expect(problems).toEqual([]);
  });

  test.runIf(inLab)("an unknown job shows that it does not exist", async () => {
    const { serve } = await installation();
    const { page } = await visit(`${await serve()}jobs/019a8f00-0000-7000-8000-000000000001`);
    await page.getByText("There is no job with this id").waitFor();
    expect(await page.getByRole("button", { name: "Replay …" }).count()).toBe(0);
  });
});
