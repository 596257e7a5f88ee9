import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { NestFactory } from "@nestjs/core";
import { build } from "esbuild";
import { expect, onTestFinished, test, vi } from "vitest";
import type { Stint } from "stint";
import { Mailer, sendReceipt, STINT, WorkerModule } from "../../../../examples/nest/worker.module.ts";
import { GET, POST } from "../../../../examples/next/app/api/payments/route.ts";
import { stint as nextStint } from "../../../../examples/next/lib/stint.ts";
import { freshSchema } from "../support/fresh.ts";
import { inLab } from "../support/lab.ts";

const root = fileURLToPath(new URL("../../../../", import.meta.url));

/** An example as its readers start it. */
function startExample(file: string, environment: Record<string, string>) {
  const program = file.endsWith(".ts") ? ["--import", "jiti/register", file] : [file];
  const child = spawn(process.execPath, program, {
    cwd: root,
    env: { ...process.env, ...environment, JITI_FS_CACHE: "false" },
    stdio: ["ignore", "pipe", "ignore"],
  });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  onTestFinished(() => void child.kill("SIGKILL"));
  return {
    /** The next line that begins so; fails where the process ends before. */
    async says(start: string): Promise<string> {
      for (;;) {
        const { value, done } = await lines.next();
        if (done === true) throw new Error(`${file} ended before it said "${start}"`);
        if (value.startsWith(start)) return value;
      }
    },
    async stop(): Promise<unknown> {
      child.kill("SIGTERM");
      return await exited;
    },
  };
}

test("Express: a request enqueues in its transaction, and its process runs the job", async () => {
  const fresh = await freshSchema();
  const bundle = "examples/express/dist/main.js";
  await build({
    entryPoints: [join(root, "examples/express/main.ts")],
    outfile: join(root, bundle),
    bundle: true,
    packages: "external",
    platform: "node",
    format: "esm",
  });
  const app = startExample(bundle, {
    DATABASE_URL: fresh.url,
    STINT_SCHEMA: fresh.schema,
    PORT: "0",
  });
  onTestFinished(async () => void (await fresh.sql("drop table if exists example_payment")));
  const url = (await app.says("listening on ")).slice("listening on ".length);

  const paid = await fetch(`${url}/payments/p1`, { method: "POST" });
  const { job } = (await paid.json()) as { job: string };
  expect(paid.status).toBe(201);
  await fresh.client().waitFor(job);
  expect(await (await fetch(`${url}/jobs/${job}`)).json()).toMatchObject({ state: "succeeded" });

  expect((await fetch(`${url}/payments/p1`, { method: "POST" })).status).toBe(409);
  expect(await fresh.sql("select count(*)::int as count from stint.jobs")).toEqual([{ count: 1 }]);
  expect(await app.stop()).toBe(0);
});

test("Nest: the worker starts and stops with the application and uses its services", async () => {
  const fresh = await freshSchema();
  const app = await NestFactory.createApplicationContext(WorkerModule.forDatabase(fresh.url, fresh.schema), {
    logger: false,
  });
  const { id } = await app.get<Stint>(STINT).enqueue(sendReceipt, { paymentId: "p1" });
  await fresh.client().waitFor(id);
  expect(app.get(Mailer).sent).toEqual(["p1"]);
  expect(await fresh.client().workers()).toHaveLength(1);
  await app.close();
  expect(await fresh.client().workers()).toHaveLength(0);
});

test.runIf(inLab)(
  "Next: a route enqueues, and a worker process runs the job and stops on SIGTERM",
  async () => {
    const fresh = await freshSchema();
    const environment = { DATABASE_URL: fresh.url, STINT_SCHEMA: fresh.schema };
    for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
    const worker = startExample("examples/next/worker.ts", environment);
    onTestFinished(async () => {
      await nextStint().close();
      vi.unstubAllEnvs();
    });

    const url = "http://localhost/api/payments";
    const posted = await POST(
      new Request(url, { method: "POST", body: JSON.stringify({ paymentId: "p1" }) }),
    );
    expect(posted.status).toBe(202);
    const { job } = (await posted.json()) as { job: string };
    await fresh.client().waitFor(job);
    await worker.says("receipt for p1 sent");
    expect(await (await GET(new Request(`${url}?job=${job}`))).json()).toEqual({ state: "succeeded" });

    expect(await worker.stop()).toBe(0);
  },
);
