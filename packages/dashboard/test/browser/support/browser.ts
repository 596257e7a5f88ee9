/** A real browser, if this machine has one. Pages may not request other origins, log errors, or violate the content policy. */
import { chromium, type Browser, type Page } from "playwright-core";
import { inject, onTestFinished } from "vitest";
import { browserPath } from "./browser-path.ts";

export { browserPath };

if (browserPath === undefined) {
  process.stderr.write(
    "No browser found. Set STINT_TEST_BROWSER to run the browser tests; they are skipped.\n",
  );
}

export type Visit = {
  readonly page: Page;
  /** Errors, policy violations and requests to other origins. Expect it to be empty. */
  readonly problems: string[];
};

export type VisitOptions = {
  readonly viewport?: { readonly width: number; readonly height: number };
  readonly colorScheme?: "light" | "dark";
  /** `page.clock` moves the time of the page. */
  readonly clock?: boolean;
};

export const desktop = { width: 1440, height: 900 };
export const phone = { width: 390, height: 844 };

let connection: Promise<Browser> | undefined;

/** Pages that a finished test left clean. A new page costs four times the CPU of a navigation: Chromium starts a process for it. */
const cleanPages: Page[] = [];

/** Open an address. The page is cleaned for the next test, or closed if this one failed. */
export async function visit(url: string, options: VisitOptions = {}): Promise<Visit> {
  const { viewport = desktop, colorScheme = "light", clock = false } = options;
  const page = (clock ? undefined : cleanPages.pop()) ?? (await newPage());
  onTestFinished(async ({ task }) => {
    // A fake clock cannot be removed from a page.
    if (clock || task.result?.state === "fail") await page.context().close();
    else await clean(page);
  });
  await page.setViewportSize(viewport);
  await page.emulateMedia({ colorScheme });
  if (clock) await page.clock.install();
  const problems = collectProblems(page, new URL(url).origin);
  await page.goto(url);
  return { page, problems };
}

async function newPage(): Promise<Page> {
  connection ??= connect();
  const context = await (await connection).newContext({ reducedMotion: "reduce" });
  // A busy machine may take longer than the default of 30 s.
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) =>
      reportError(new Error(`policy: ${event.violatedDirective} refused ${event.blockedURI}`)),
    );
  });
  return page;
}

async function connect(): Promise<Browser> {
  const response = await fetch(inject("browserUrl"));
  const text = await response.text();
  if (!response.ok) throw new Error(`The browser did not start: ${text}`);
  return await chromium.connect(text);
}

function collectProblems(page: Page, home: string): string[] {
  const problems: string[] = [];
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
  return problems;
}

/** Leave the dashboard, and reset everything that a test can change in a page or its profile. */
async function clean(page: Page): Promise<void> {
  for (const event of ["console", "pageerror", "dialog", "request", "response"] as const)
    page.removeAllListeners(event);
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await page.evaluate(() => localStorage.clear());
  // The same site as the dashboards: for another site, Chromium starts a new process, which costs a third of the CPU of most tests.
  await page.goto(new URL("blank", inject("browserUrl")).href);
  await page.context().clearCookies();
  await page.context().clearPermissions();
  cleanPages.push(page);
}
