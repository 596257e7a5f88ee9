/** Untrusted text stays text in every place where it is shown. */
import type { Page } from "playwright-core";
import { defineJob, handle, typed } from "stint";
import { describe, expect, test } from "vitest";
import { startWorker } from "../../../stint/test/support/watch.ts";
import { browserPath, desktop, phone, visit } from "./support/browser.ts";
import { go } from "./support/page.ts";
import { installation } from "../support/installation.ts";
import { slice } from "../../../stint/test/support/lab.ts";

const corpus = [
  "<script>window.hit=1;alert(1)</script>",
  "</script><script>window.hit=1</script>",
  '"><img src=x onerror="window.hit=1;alert(1)">',
  "<svg/onload=alert(1)>",
  "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
  "<iframe srcdoc='<script>parent.hit=1</script>'></iframe>",
  "javascript:window.hit=1",
  "<a href='javascript:window.hit=1'>open</a>",
  "{{constructor.constructor('window.hit=1')()}}",
  "${window.hit=1}",
  "<style>*{display:none!important}</style>",
  "<base href='//evil.example/'>",
  "<meta http-equiv=refresh content='0;url=//evil.example'>",
  "<form action=//evil.example><button autofocus>OK</button></form>",
  "invoice\u202Egpj.exe",
  "\u2066\u2067hidden\u2069\u200B\u{E0041}",
  "W".repeat(400),
  "Z̸̧̛͙̠̲̈́̅A̴L̷G̵O̶",
  "__proto__",
  "%3Cscript%3Ealert(1)%3C/script%3E&lt;b&gt;",
];

const hostile = defineJob("hostile", { payload: typed<object>(), attempts: 1 });

/** Injected elements, and whether any script ran. */
async function strangers(page: Page) {
  return await page.evaluate(() => ({
    ran: "hit" in window,
    elements: [
      ...document.querySelectorAll("img, iframe, form[action], object, embed, animate, meta[http-equiv]"),
    ].map((element) => element.outerHTML.slice(0, 200)),
    scripts: [...document.scripts].filter((script) => !script.src.startsWith(document.baseURI)).length,
    styles: document.querySelectorAll("body style").length,
    bases: document.querySelectorAll("base").length,
    handlers: [...document.querySelectorAll("*")].filter((element) =>
      element.getAttributeNames().some((name) => name.startsWith("on")),
    ).length,
    // Not document.links, which leaves out an <a> inside an SVG.
    links: [...document.querySelectorAll("a")]
      .map((link) => new URL(link.getAttribute("href") ?? "", document.baseURI))
      .filter(({ origin }) => origin !== location.origin)
      .map(({ href }) => href),
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  }));
}

const clean = {
  ran: false,
  elements: [],
  scripts: 0,
  styles: 0,
  bases: 1,
  handlers: 0,
  links: [],
  overflow: 0,
};

describe.skipIf(browserPath === undefined)("hostile text", () => {
  test("stays text on every screen, wide and narrow", async () => {
    const { stint, serve } = await installation();
    const ids: string[] = [];
    for (const [index, text] of corpus.entries()) {
      const payload = { [text]: text, list: [text, { [text]: null }] };
      const { id } = await stint.enqueue(hostile, payload, {
        key: `${index} ${text}`,
        tenant: text,
        tags: [text.slice(0, 128)],
        meta: { [`note ${text}`]: text },
      });
      ids.push(id);
    }
    const { seen } = await startWorker(stint, {
      handlers: [
        handle(hostile, ({ key }) => {
          const error = new Error(key ?? "", { cause: new Error(`because ${key}`) });
          error.name = (key ?? "").slice(0, 100);
          throw error;
        }),
      ],
    });
    for (const id of ids) await seen("settled", (event) => event.id === id);
    await stint.replay(ids[0]!, { reason: corpus[0]!, actor: corpus[2]! });

    const address = await serve({
      environment: { name: corpus[3]!, production: true },
      authorize: () => ({ user: corpus[2]!, role: "admin" }),
    });
    const { page, problems } = await visit(`${address}jobs`);
    const staysText = async (of = page.url()) => {
      for (const viewport of [phone, desktop]) {
        await page.setViewportSize(viewport);
        expect({ of, width: viewport.width, ...(await strangers(page)) }).toEqual({
          of,
          width: viewport.width,
          ...clean,
        });
      }
    };
    await page
      .locator("tbody tr[data-row]")
      .nth(corpus.length - 1)
      .waitFor();
    await staysText();
    expect(await page.locator("tbody").innerText()).toContain(corpus[2]!);
    // Invisible characters are shown as their code points.
    expect(await page.locator("tbody").innerText()).toContain("U+202E");

    // The list has shown every text; in npm test a job's page shows one text of each sort.
    const pages = slice([...ids.entries()], ([index]) => index % 4 === 2);
    for (const [index, id] of pages) {
      await go(page, `jobs/${id}`);
      await page.getByText(id, { exact: true }).first().waitFor();
      await page.getByRole("region", { name: "Payload" }).locator(".json-name").first().waitFor();
      await page.locator(".attempt-chart svg").waitFor();
      await staysText(corpus[index]);
    }

    // In the address, in the fields, and in the chips.
    const search = new URLSearchParams({ error: corpus[0]!, tenant: corpus[2]!, state: "dead" });
    await go(page, `jobs?${search}`);
    await page.getByRole("button", { name: "Remove the filter Tenant" }).waitFor();
    await staysText();

    await go(page, "dead");
    await page.getByRole("heading", { level: 1, name: "Dead" }).waitFor();
    await page.locator("tbody tr[data-row]").first().waitFor();
    await staysText();

    await page.getByRole("button", { name: "Replay …" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Reason").fill(corpus[0]!);
    await dialog.getByLabel("This is production").fill(corpus[3]!);
    await dialog.getByRole("button", { name: /^Replay \d/ }).click();
    await dialog.getByText("Finished.").waitFor();
    await staysText();
    await go(page, "operations");
    await page.getByRole("row", { name: "Replay" }).waitFor();
    expect(await page.locator("tbody").innerText()).toContain(corpus[0]!);
    await staysText();
    expect(problems).toEqual([]);

    // Control: the same text as markup is detected. (Links to other sites are left out.)
    const markup = corpus.filter((text) => /^(">)?<(img|svg|style|a |script)/.test(text));
    await page.evaluate((html) => document.body.insertAdjacentHTML("beforeend", html), markup.join("\n"));
    const noticed = await strangers(page);
    expect(noticed).toMatchObject({ styles: 1, scripts: 1, links: ["javascript:window.hit=1"] });
    expect(noticed.elements).toHaveLength(2);
    expect(noticed.handlers).toBeGreaterThan(1);
  });
});
