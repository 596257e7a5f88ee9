/** Flows in a real browser, on a real installation. */
import { defineJob, entry, handle, typed } from "stint";
import { describe, expect, test } from "vitest";
import { startWorker } from "../../../stint/test/support/watch.ts";
import { browserPath, phone, visit } from "./support/browser.ts";
import { faults, overflow } from "./support/page.ts";
import { installation } from "../support/installation.ts";

const resize = defineJob("resize", { payload: typed<object>(), attempts: 1 });
const album = defineJob("album", { payload: typed<object>(), attempts: 1 });

describe.skipIf(browserPath === undefined)("flows", () => {
  test("a stuck flow is found, drawn with states, and cancelled with a reason", async () => {
    const { stint, serve } = await installation({ jobs: [resize, album] });
    const pages = Object.fromEntries(
      Array.from({ length: 8 }, (_, n) => [`page-${n}`, entry(resize, { n })]),
    );
    const long = "w".repeat(128);
    const { jobs } = await stint.flow(long, {
      ...pages,
      cover: entry(album, {}),
      bind: entry(album, {}, { after: [...Object.keys(pages), "cover"] }),
    });
    await startWorker(stint, {
      handlers: [
        handle(resize, async () => {}),
        handle(album, () => {
          throw new Error("<img src=x onerror=alert(1)>");
        }),
      ],
    });
    const { page, problems } = await visit(await serve({ environment: { name: "live", production: true } }));
    await page.getByText("Live", { exact: true }).waitFor();
    for (const key of ["g", "f"]) await page.keyboard.press(key);
    await page.getByRole("row", { name: /stuck/ }).waitFor();
    expect(await faults(page)).toEqual([]);
    for (const key of ["j", "Enter"]) await page.keyboard.press(key);

    await page.getByText("It is stuck: no part can continue by itself").waitFor();
    const graph = page.getByRole("group", { name: "Graph of the flow" });
    // Eight pages are one box; the others are links.
    await graph.getByText("8 × resize").waitFor();
    expect(await graph.innerText()).toMatch(
      /8 × resize\s+8 succeeded[^]*cover \(album\)[^]*dead[^]*bind[^]*blocked/,
    );
    expect(await page.locator("main").innerText()).toContain("<img src=x onerror=alert(1)>");
    expect(await page.locator("main img").count()).toBe(0);
    expect(await faults(page)).toEqual([]);
    await page.setViewportSize(phone);
    expect(await overflow(page)).toBe(0);

    await graph.getByRole("link", { name: "bind" }).click();
    const place = page.getByRole("region", { name: "Flow" });
    await place.getByRole("list", { name: "Before it" }).getByText("cover (album)").waitFor();
    await place.getByRole("link", { name: long }).click();

    await page.getByRole("button", { name: "Cancel …" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Reason").fill("wrong order");
    const cancel = dialog.getByRole("button", { name: "Cancel the flow" });
    expect(await cancel.getAttribute("aria-disabled")).toBe("true");
    await dialog.getByLabel("This is production").fill("live");
    await cancel.click();
    await page.getByText("It was stopped").waitFor();
    expect((await stint.get(jobs["bind"].id))?.state).toBe("cancelled");
    expect(problems).toEqual([]);
  });
});
