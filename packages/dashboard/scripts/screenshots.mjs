/**
 * Takes the screenshots in docs/images from the running demo: run `npm start` in one terminal, and after some minutes
 * `npm run screenshots` in another, with the dashboard's address if it is not the default.
 *
 * It replays some of the demo's dead jobs, because Operations would otherwise be empty.
 */
import { stat } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const home = process.argv[2] ?? "http://127.0.0.1:4000/";
const folder = fileURLToPath(new URL("../../../docs/images/", import.meta.url));
const desk = { width: 1440, height: 900 };
const phone = { width: 390, height: 844 };
const mostBytes = 200_000;

const browser = await chromium.launch({
  executablePath: process.env["STINT_TEST_BROWSER"] ?? "/usr/bin/chromium",
  args: ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"],
});
try {
  await picture("health", "");
  await picture("health-dark", "", { colorScheme: "dark" });
  await picture("health-phone", "", { viewport: phone });
  await picture("queues", "queues");
  await picture("queue", "queues/embedding");
  await picture("workers", "workers");
  await picture("controls", "controls");
  await picture("capacity", "capacity");
  await picture("jobs", "jobs?state=retrying,running,dead");
  await picture("dead", "dead");
  await picture("job", `jobs/${await rescuedJob()}`);
  await replaySome();
  await picture("operations", "operations");
  await untilSomethingIsSlow();
  await picture("slow", "slow");
} finally {
  await browser.close();
}

/** A fresh page each time, without the focus, hover and scroll position of the previous one. */
async function picture(name, path, { viewport = desk, colorScheme = "light" } = {}) {
  const context = await browser.newContext({ viewport, colorScheme, reducedMotion: "reduce" });
  const page = await context.newPage();
  await page.goto(new URL(path, home).href);
  await page.getByText("Live", { exact: true }).waitFor();
  // Also waits for the slower requests: charts, kinds, pages of jobs.
  await sleep(1_500);
  await page.screenshot({ path: `${folder}${name}.png` });
  await context.close();
  const { size } = await stat(`${folder}${name}.png`);
  if (size > mostBytes) throw new Error(`${name}.png has ${size} bytes, and may have ${mostBytes}`);
  process.stdout.write(`${name}.png ${Math.round(size / 1_000)} kB\n`);
}

async function request(path, body) {
  const response = await fetch(new URL(`api/${path}`, home), {
    ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
    headers: { "content-type": "application/json", "x-stint": "1" },
  });
  const json = await response.json();
  if (!response.ok) throw new Error(`${path}: ${json.error.message}`);
  return json;
}

/** The job of the worker that the demo kills: it has two attempts, on two workers. */
async function rescuedJob() {
  let after = "";
  for (;;) {
    const { jobs, next } = await request(`jobs?kind=research-topic&state=succeeded&limit=200${after}`);
    const rescued = jobs.find(({ crashes }) => crashes > 0);
    if (rescued !== undefined) return rescued.id;
    if (next === null) throw new Error("No job was rescued yet: let the demo run for longer.");
    after = `&after=${next}`;
  }
}

async function replaySome() {
  const filter = { state: "dead", kind: "write-study-guide", error: "Chemistry" };
  const begun = await request("operations", { action: "replay", filter, reason: "the chapter was added" });
  for (let state = begun.state; state === "running"; await sleep(200)) {
    state = (await request(`operations/${begun.id}`)).state;
  }
}

/** The demo now and then scans a map, which takes much longer than a page. */
async function untilSomethingIsSlow() {
  for (let looks = 0; looks < 200; looks++) {
    if ((await request("slow")).length > 0) return;
    await sleep(300);
  }
  throw new Error("Nothing was slow for a minute.");
}
