import { afterAll, beforeAll, expect, test } from "vitest";
import { forSchema } from "#stint/db/statement.js";
import { registerWorker, heartbeat } from "#stint/sql/workers.js";
import { adminClient } from "../support/database.ts";
import { freshSchema } from "../support/fresh.ts";
import { ownServer, type OwnServer } from "../support/own-server.ts";
import { add } from "./jobs.ts";

let server: OwnServer;
beforeAll(async () => {
  server = await ownServer({ max_notify_queue_pages: "64" });
});
afterAll(async () => {
  await server.remove();
});

test("a full notification queue cannot fail the commit of a transaction that enqueues", async () => {
  const fresh = await freshSchema(server.url);
  await registerWorker(fresh.db, { id: "w", host: "h", pid: 1, version: "0", pools: {}, kinds: [] });
  await heartbeat(fresh.db, "w", { listening: true });
  const [sleeper, user] = [await adminClient(server.url), await adminClient(server.url)];
  // A session listens and never reads: notifications stay in the queue from now on.
  await sleeper.query("listen anything");
  await sleeper.query("begin");
  await sleeper.query("select 1");
  const usage = async (): Promise<number> =>
    (await fresh.sql<{ used: number }>("select pg_notification_queue_usage() as used"))[0]!.used;
  const fill = "select pg_notify('anything', repeat(md5($1::text), 240))";
  for (let sent = 0; (await usage()) < 0.99 && sent < 200; sent++) {
    await user.query(fill, [sent]).catch(() => undefined);
  }
  await expect(user.query("select pg_notify('anything', repeat('x', 7900))")).rejects.toThrow(/NOTIFY queue/);

  await user.query("begin");
  const { rows } = await user.query(
    forSchema("select created, listening from stint.enqueue_rows($1, true)", fresh.schema),
    [
      JSON.stringify([
        { id: "01a1df34-5517-7580-9683-6d871cfc9ee0", kind: "work", queue: "main", payload: 1 },
      ]),
    ],
  );
  const bare = await user.query(
    forSchema(
      "select stint.enqueue_new(array[gen_random_uuid()], '{work}', '{main}', '[1]', null, true) as listening",
      fresh.schema,
    ),
  );
  await user.query("commit");
  await sleeper.end();
  await user.end();

  expect(rows).toEqual([{ created: true, listening: true }]);
  expect(bare.rows).toEqual([{ listening: true }]);
  expect(await fresh.sql("select from stint.job")).toHaveLength(2);
  expect(await add(fresh.db, [{}])).toMatchObject([{ listening: true }]);
});
