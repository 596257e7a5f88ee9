import { accessSync, constants } from "node:fs";

const usualPaths = [
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
];

function isThere(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Undefined: no browser was found, and browser tests are skipped. */
export const browserPath = [process.env["STINT_TEST_BROWSER"] ?? "", ...usualPaths].find(isThere);
