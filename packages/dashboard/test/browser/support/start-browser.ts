import { chromium, type BrowserServer } from "playwright-core";
import { browserPath } from "./browser-path.ts";

export async function startBrowser(): Promise<BrowserServer> {
  return await chromium.launchServer({
    executablePath: browserPath ?? "",
    host: "127.0.0.1",
    args: [
      "--headless=new",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}
