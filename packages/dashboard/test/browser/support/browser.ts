/** A real browser, where there is one. It may ask nothing outside, complain about nothing, and refuse nothing. */
import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";
import { inject, onTestFinished } from "vitest";
import { browserPath } from "./browser-path.ts";

export { browserPath };

if (browserPath === undefined) {
  process.stderr.write(
    "No browser was found (set STINT_TEST_BROWSER to one): the browser tests are skipped.\n",
  );
}

/** The browser of the run. Closing it closes what this file opened in it. */
export async function launch(): Promise<Browser> {
  const answer = await fetch(inject("browserUrl"));
  const words = await answer.text();
  if (!answer.ok) throw new Error(`The browser did not start: ${words}`);
  return await chromium.connect(words);
}

export type Visit = {
  readonly page: Page;
  /** Everything that should not have happened: errors, refusals of the policy, requests to elsewhere. */
  readonly problems: string[];
};

export const desktop = { width: 1440, height: 900 };
export const phone = { width: 390, height: 844 };

/** Open an address in a fresh profile, which is closed when the test ends. */
export async function visit(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<Visit> {
  const context = await browser.newContext({ viewport: desktop, reducedMotion: "reduce", ...options });
  onTestFinished(async () => await context.close());
  const page = await context.newPage();
  const problems: string[] = [];
  const home = new URL(url).origin;
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning")
      problems.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    const { origin, protocol } = new URL(request.url());
    if (origin !== home && protocol !== "data:") problems.push(`outside: ${request.url()}`);
  });
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) =>
      reportError(new Error(`policy: ${event.violatedDirective} refused ${event.blockedURI}`)),
    );
  });
  await page.goto(url);
  return { page, problems };
}
