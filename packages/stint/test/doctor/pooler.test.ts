import { expect, test } from "vitest";
import { freshSchema } from "../support/fresh.ts";
import { all, healthyServer, lookAt, of } from "./support.ts";
import { transactionPooler } from "./transaction-pooler.ts";

const server = healthyServer();

test("a pooler in transaction mode is detected, with the options it needs", async () => {
  const fresh = await freshSchema(server.url());
  const url = await transactionPooler(fresh.url);

  const report = await lookAt(fresh, { url });

  expect(of(report, "pooler")).toMatchObject([
    {
      level: "error",
      title: "Prepared statements get lost between transactions",
      fix: expect.stringContaining("prepare: false"),
    },
    {
      level: "warning",
      title: expect.stringContaining("LISTEN does not work"),
      fix: expect.stringContaining('wake: "none"'),
    },
  ]);
  expect(report.counts).toMatchObject({ error: 1, warning: 1 });
});

test("behind a pooler with the right options, every check runs and passes", async () => {
  const fresh = await freshSchema(server.url());
  const url = await transactionPooler(fresh.url);

  const report = await lookAt(fresh, { url, uses: { prepare: false, notify: false } });

  expect(all(report)).toEqual([
    "pooler: note: Clients connect through a pooler in transaction mode: two statements of one client ran on two server connections",
  ]);
});
