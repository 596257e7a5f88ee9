import { expect, onTestFinished, test } from "vitest";
import { defineJob, entry, handle, steps, typed, type HandlerContext, type Tx } from "stint";
import { query } from "../../packages/stint/test/support/database.ts";
import { freshSchema } from "../../packages/stint/test/support/fresh.ts";
import { gate } from "../../packages/stint/test/support/gate.ts";
import { ownServer } from "../../packages/stint/test/support/own-server.ts";
import { until } from "../../packages/stint/test/support/until.ts";
import { startWorker } from "../../packages/stint/test/support/watch.ts";
import { startStandby } from "./standby.ts";
import { startSwitchProxy } from "./switch-proxy.ts";

const options = { payload: typed<object>(), backoff: steps("1h"), attempts: 1 };
const plain = defineJob("plain", options);
const atomic = defineJob("atomic", { ...options, atomic: true });

type Failover = "stopped" | "read-only";

test.each<Failover>(["stopped", "read-only"])(
  "a failover within handler transactions (old primary %s) doubles no write",
  async (failover) => {
    const server = await ownServer();
    onTestFinished(() => server.remove());
    const fresh = await freshSchema(server.url);
    await fresh.sql("create table stint.note (kind text, part integer)");
    const standby = await startStandby(server);
    const proxy = await startSwitchProxy(server.url);
    const stint = fresh.client({ database: proxy.url });
    const over = gate();
    let inside = 0;
    const write = async (tx: Tx, { kind, fence }: HandlerContext): Promise<void> => {
      const insert = `insert into "${fresh.schema}".note values ($1, $2)`;
      await tx.query(insert, [kind, 1]);
      inside += 1;
      if (fence.epoch === 1) await over.opened;
      await tx.query(insert, [kind, 2]);
    };
    const { all } = await startWorker(stint, {
      handlers: [
        handle(plain, async (context) => await context.complete(async (tx) => await write(tx, context))),
        handle(atomic, async (context) => await write(context.tx, context)),
      ],
    });
    const jobs = await stint.enqueueMany([entry(plain, {}), entry(atomic, {})]);
    await until(() => inside === 2, { message: "both handlers are in their transactions" });
    await standby.caughtUp();
    if (failover === "stopped") {
      await server.stop("immediate");
      await standby.promote();
      proxy.to(standby.url);
      over.open();
    } else {
      // Connections stay with the old primary, which refuses writes from now on, also those of the transactions that are open.
      await query("alter system set default_transaction_read_only = on", [], server.url);
      await query("select pg_reload_conf()", [], server.url);
      await standby.promote();
      proxy.to(standby.url, { keep: true });
      await query(
        "select pg_terminate_backend(pid) from pg_stat_activity where state = 'idle in transaction'",
        [],
        server.url,
      );
      over.open();
    }

    const seen = async (id: string) => (await query(jobText(fresh.schema), [id], standby.url))[0];
    for (const { id } of jobs)
      await until(async () => (await seen(id))?.["state"] === "succeeded", { message: `job ${id} succeeds` });
    for (const { id } of jobs)
      expect(await seen(id)).toMatchObject({ state: "succeeded", attempts: 1, crashes: 0, faults: 1 });
    expect(
      await query(
        `select kind, count(*)::int from "${fresh.schema}".note group by kind order by kind`,
        [],
        standby.url,
      ),
    ).toEqual([
      { kind: "atomic", count: 2 },
      { kind: "plain", count: 2 },
    ]);
    expect(all("dead")).toEqual([]);
  },
);

const jobText = (schema: string): string =>
  `select state, attempts, crashes, faults, epoch::int from "${schema}".jobs where id = $1`;
