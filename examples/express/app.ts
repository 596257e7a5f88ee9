import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import { Pool } from "pg";
import { createStint, defineJob, handle, silentLogger } from "stint";
import { z } from "zod";

export const sendReceipt = defineJob("send-receipt", { payload: z.object({ paymentId: z.string() }) });

export type App = { readonly url: string; close(): Promise<void> };

/** An Express server and a worker in one process. */
export async function startApp(database: string, schema: string, port = 0): Promise<App> {
  const pool = new Pool({ connectionString: database });
  await pool.query("create table if not exists example_payment (id text primary key)");
  const stint = createStint({ database, schema, logger: silentLogger, jobs: [sendReceipt] });

  const app = express();
  app.use(express.json());

  // oxlint-disable-next-line oxc/no-async-endpoint-handlers -- Express 5 passes rejections on
  app.post("/payments/:id", async (request, response) => {
    const client = await pool.connect();
    try {
      await client.query("begin");
      await client.query("insert into example_payment (id) values ($1)", [request.params.id]);
      // The job exists exactly if the payment does.
      const { id } = await stint.in(client).enqueue(sendReceipt, { paymentId: request.params.id });
      await client.query("commit");
      response.status(201).json({ job: id });
    } catch {
      await client.query("rollback");
      response.status(409).json({ error: "this payment exists" });
    } finally {
      client.release();
    }
  });

  // oxlint-disable-next-line oxc/no-async-endpoint-handlers -- Express 5 passes rejections on
  app.get("/jobs/:id", async (request, response) => {
    const job = await stint.get(request.params.id);
    if (job === undefined) response.status(404).json({ error: "no such job" });
    else response.json({ state: job.state, result: job.result });
  });

  const worker = stint.worker({
    pools: { default: 5 },
    // Signals are left to the application: `close` stops the HTTP server first.
    signals: false,
    handlers: [handle(sendReceipt, ({ payload }) => console.log(`receipt for ${payload.paymentId} sent`))],
  });
  await worker.start();

  const server = await new Promise<Server>((resolve) => {
    const listening = app.listen(port, () => resolve(listening));
  });
  return {
    url: `http://localhost:${(server.address() as AddressInfo).port}`,
    async close() {
      // Order: the HTTP server, the worker, the client. Running handlers may enqueue until the worker has stopped.
      await new Promise((resolve) => server.close(resolve));
      await stint.close();
      await pool.end();
    },
  };
}
