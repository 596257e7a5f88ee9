import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { NestFactory } from "@nestjs/core";
import { expect, onTestFinished, test, vi } from "vitest";
import type { Stint } from "stint";
import { startApp } from "../../../../examples/express/app.ts";
import { Mailer, sendReceipt, STINT, WorkerModule } from "../../../../examples/nest/worker.module.ts";
import { GET, POST } from "../../../../examples/next/app/api/payments/route.ts";
import { stint as nextStint } from "../../../../examples/next/lib/stint.ts";
import { freshSchema } from "../support/fresh.ts";

test("Express: a request enqueues in its transaction and the worker in its process does the job", async () => {
  const fresh = await freshSchema();
  vi.spyOn(console, "log").mockReturnValue();
  const app = await startApp(fresh.url, fresh.schema);
  onTestFinished(async () => {
    await app.close();
    await fresh.sql("drop table example_payment");
  });

  const paid = await fetch(`${app.url}/payments/p1`, { method: "POST" });
  const { job } = (await paid.json()) as { job: string };
  expect(paid.status).toBe(201);
  await fresh.client().waitFor(job);
  expect(await (await fetch(`${app.url}/jobs/${job}`)).json()).toMatchObject({ state: "succeeded" });

  expect((await fetch(`${app.url}/payments/p1`, { method: "POST" })).status).toBe(409);
  expect(await fresh.sql("select count(*)::int as count from stint.jobs")).toEqual([{ count: 1 }]);
});

test("Nest: the worker starts and stops with the application, and its handlers use its services", async () => {
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

test("Next: a route enqueues, the worker process does the job and stops on SIGTERM", async () => {
  const fresh = await freshSchema();
  const environment = { DATABASE_URL: fresh.url, STINT_SCHEMA: fresh.schema };
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
  const worker = spawn(process.execPath, ["--import", "jiti/register", "examples/next/worker.ts"], {
    cwd: fileURLToPath(new URL("../../../../", import.meta.url)),
    env: { ...process.env, ...environment, JITI_FS_CACHE: "false" },
    stdio: ["ignore", "pipe", "ignore"],
  });
  const exited = new Promise((resolve) => worker.once("exit", resolve));
  const says = createInterface({ input: worker.stdout })[Symbol.asyncIterator]();
  onTestFinished(async () => {
    worker.kill("SIGKILL");
    await nextStint().close();
    vi.unstubAllEnvs();
  });

  const url = "http://localhost/api/payments";
  const posted = await POST(new Request(url, { method: "POST", body: JSON.stringify({ paymentId: "p1" }) }));
  expect(posted.status).toBe(202);
  const { job } = (await posted.json()) as { job: string };
  await fresh.client().waitFor(job);
  const lines: string[] = [];
  while (!lines.includes("receipt for p1 sent")) lines.push(String((await says.next()).value));
  expect(await (await GET(new Request(`${url}?job=${job}`))).json()).toEqual({ state: "succeeded" });

  worker.kill("SIGTERM");
  expect(await exited).toBe(0);
});
