import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { nowMs } from "../../core/clock.ts";
import type { Context } from "../context.ts";

export type NeighbourLoad = { connections: number; warmUpSeconds: number; seconds: number };

/** Each transaction does little except commit, so any delay of commits is visible in the figure. */
const transaction = `
  with moved as (update public.neighbour_account set balance = balance + 1 where id = $1 returning id)
  insert into public.neighbour_log select id, now() from moved`;

/** Another application in the same database: its connections commit small transactions one after another. */
export async function neighbourLoad(
  { stores }: Context,
  { connections, warmUpSeconds, seconds }: NeighbourLoad,
): Promise<{ commits: number; seconds: number }> {
  const load = { commits: 0, stopped: false };
  const loops = Array.from({ length: connections }, async (_, index) => {
    const client = new Client({ connectionString: stores.postgres });
    await client.connect();
    try {
      for (let n = 0; !load.stopped; n++) {
        const id = 1 + ((n * connections + index) % 10_000);
        await client.query({ name: "noisy-neighbour", text: transaction, values: [id] });
        load.commits += 1;
      }
    } finally {
      await client.end();
    }
  });
  const timed = (async () => {
    await sleep(warmUpSeconds * 1000);
    const [from, fromMs] = [load.commits, nowMs()];
    await sleep(seconds * 1000);
    const measured = { commits: load.commits - from, seconds: (nowMs() - fromMs) / 1000 };
    load.stopped = true;
    return measured;
  })();
  const [measured] = await Promise.all([timed, ...loops]);
  return measured;
}
