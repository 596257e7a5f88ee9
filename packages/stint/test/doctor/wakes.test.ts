import { expect, test } from "vitest";
import { adminClient } from "../support/database.ts";
import { freshSchema } from "../support/fresh.ts";
import { findingsOf, healthyServer } from "./support.ts";

// As small as it may be, so that it can be filled.
const server = healthyServer({ max_notify_queue_pages: "64" });

test("a notification queue that fills up is reported before it is full", async () => {
  const fresh = await freshSchema(server.url());
  const [sleeper, sender] = [await adminClient(server.url()), await adminClient(server.url())];
  await sleeper.query("listen anything");
  await sleeper.query("begin");
  await sleeper.query("select 1");
  const used = async (): Promise<number> =>
    (await sender.query<{ used: number }>("select pg_notification_queue_usage() as used")).rows[0]!.used;
  while ((await used()) < 0.3)
    await sender.query("select pg_notify('anything', repeat(gen_random_uuid()::text, 200))");

  expect(await findingsOf(fresh, "wakes")).toMatchObject([
    {
      level: "warning",
      what: expect.stringMatching(/^3\d % of the notification queue/),
      fix: expect.stringContaining("pg_terminate_backend"),
    },
  ]);

  await Promise.all([sleeper.end(), sender.end()]);
});
