import { spawn } from "node:child_process";
import { expect, onTestFinished, test } from "vitest";
import { freshSchemaName, query, testDatabaseUrl } from "../support/database.ts";
import { slice } from "../support/lab.ts";
import { exampleArgs, root } from "./example.ts";

/** What each example prints, among other lines, in this order. */
const examples: Record<string, readonly RegExp[]> = {
  approval: [/^A1: charged$/m, /^A1: shipped$/m, /^A2: refunded$/m],
  "order-flow": [/^A1: T-A1-ch_A1$/m, /^A2: compensated, because ship failed$/m],
  "account-limits": [
    /^most charges at once: a 2, b 2$/m,
    /^events of account a: opened, deposited, closed$/m,
    /^limits: key:charges 2, key:charges=a 3$/m,
  ],
  "autoscaling-keda": [
    /^metrics-api: recommended is 3$/m,
    /^postgresql: the query returns 3$/m,
    /^autoscale: 1 → 3: 1 of \d needed workers run/m,
    /^autoscale: [23] → 1: The workers keep up/m,
  ],
  "cpu-heavy": [
    /^primes below 200,000: 17984, counted in another process: true$/m,
    /^the job that hoards memory: dead after 2 crashes$/m,
    /^its last attempt: the process of its handler ran out of memory \(more than 128 MB\)/m,
  ],
  "quota-reset": [/^next resets: .*T00:00:00\.000Z/m, /^used after the reset: 0, 0$/m],
  "shared-api": [
    /^calls: 31, refused: 1$/m,
    /^tokens used of the quota: 4\d$/m,
    /^kinds: classify, summarize, translate$/m,
    /^attempts spent by the refused job: 0$/m,
  ],
  "tenant-fairness": [
    /^fair: true depth: whale 300, acme 6, globex 6, gold 6, initech 6$/m,
    /^fair-imports: the last job of a small tenant was number [2-5]\d of 324$/m,
    /^plain-imports: the last job of a small tenant was number 32[34] of 324$/m,
  ],
  reminders: [/^reminder:ada: .* \(Europe\/London\)$/m, /^reminded now$/m],
  "resumable-import": [/^killed with -9$/m, /^imported 1000 rows; the second worker began at row [5-9]00$/m],
  "webhook-fan-out": [/^delivered 495, failed 5$/m, /^webhooks: 496 succeeded, 5 dead$/m],
};

/** Each takes a second of CPU or more, and `npm run types` checks them all. */
const inEveryRun = new Set(["order-flow"]);
const run = slice(Object.entries(examples), ([name]) => inEveryRun.has(name));

test.each(run)("examples/%s prints what it promises", async (name, lines) => {
  const schema = freshSchemaName();
  onTestFinished(async () => void (await query(`drop schema if exists "${schema}" cascade`)));
  const child = spawn(process.execPath, exampleArgs(name), {
    cwd: root,
    env: { ...process.env, DATABASE_URL: testDatabaseUrl(), STINT_SCHEMA: schema },
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let [output, errors] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  const code = await new Promise((resolve) => child.once("close", resolve));

  expect({ code, errors }).toEqual({ code: 0, errors: "" });
  for (const line of lines) expect(output).toMatch(line);
});
