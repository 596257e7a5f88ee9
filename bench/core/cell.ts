import type { Client } from "pg";
import { spawnActor, type Actor } from "../actor/spawn.ts";
import { databaseOf, isPeer } from "../systems/index.ts";
import type { Bench, Measurement, NodeVersion } from "./scenario.ts";
import type { Step } from "./plan.ts";
import type { Postgres } from "./postgres.ts";
import type { Redis } from "./redis.ts";

/** Resources shared by all cells. */
export type Ground = {
  readonly postgres: Postgres;
  readonly redis: Redis | undefined;
  readonly nodes: Readonly<Record<NodeVersion, string>>;
  readonly actorEntry: URL;
  readonly peers: URL;
};

/** Measure one cell and clean up after it: its processes, its sessions and its jobs, which would otherwise need a vacuum later. */
export async function runCell(
  ground: Ground,
  { scenario, cell }: Step,
  note: (line: string) => void,
): Promise<readonly Measurement[]> {
  const { postgres, redis, nodes } = ground;
  const database = databaseOf(cell.system);
  const stores = { postgres: postgres.urlOf(database), redisPort: redis?.port };
  const actors: Promise<Actor>[] = [];
  const connections: Client[] = [];

  const bench: Bench = {
    spawn: async ({ node = isPeer(cell.system) ? "24" : "own", execArgv = [] } = {}) => {
      const { actorEntry: entry, peers } = ground;
      const { system, config } = cell;
      const actor = spawnActor({
        system,
        config,
        stores,
        entry,
        peers,
        execArgv,
        execPath: nodes[node],
      });
      actors.push(actor);
      return await actor;
    },
    connect: async () => {
      const client = await postgres.connect(database);
      connections.push(client);
      return client;
    },
    postgresPid: postgres.pid,
    redisPid: redis?.pid,
    stores,
    nodes,
    note,
  };
  try {
    return await within(scenario.deadlineSeconds ?? (cell.quick ? 30 : 90), scenario.measure(bench, cell));
  } finally {
    await cleanUp(actors, connections);
    await endSessions(postgres, database);
  }
}

/** The first actor empties the store after the others have exited. Each cell starts with `prepare`, so this may fail. */
async function cleanUp(spawned: readonly Promise<Actor>[], connections: readonly Client[]): Promise<void> {
  await Promise.allSettled(connections.map((client) => client.end()));
  // Includes actors that are still starting: the cell may have timed out.
  const settled = await Promise.allSettled(spawned);
  const [keeper, ...others] = settled.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  await Promise.all(others.map((actor) => actor.kill()));
  if (keeper === undefined) return;
  await within(10, keeper.call("prepare")).catch(() => undefined);
  await keeper.kill();
}

/** Sessions of killed processes may still hold locks, which the next cell would wait for. */
async function endSessions(postgres: Postgres, database: string): Promise<void> {
  const client = await postgres.connect();
  try {
    await client.query(
      "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1 and backend_type = 'client backend'",
      [database],
    );
  } finally {
    await client.end();
  }
}

async function within<T>(seconds: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${seconds} s`)), seconds * 1000);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
    // The measurement may fail later, because its connections are ended.
    work.catch(() => undefined);
  }
}
