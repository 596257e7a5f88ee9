import { connect } from "node:net";
import { once } from "node:events";
import { Client } from "pg";
import type { Bench } from "./scenario.ts";

/** Counts the statements a system sends to its store. The counting itself adds none. */
export type StatementCounter = {
  /** The number of statements so far. Only differences between two counts are meaningful. */
  count(): Promise<number>;
  readonly serverPid: number;
  end(): Promise<void>;
};

/** For a system on Postgres. Call it before the actors connect: already open sessions are not counted. */
export async function countStatements(bench: Bench): Promise<StatementCounter> {
  const url = new URL(bench.stores.postgres);
  const database = url.pathname.slice(1);
  // Reads from another database: a query would be counted in the database in which it runs.
  url.pathname = "/postgres";
  const client = new Client({ connectionString: url.href });
  client.on("error", () => undefined);
  await client.connect();
  const readCount = async (text: string): Promise<number> =>
    Number((await client.query<{ n: string }>(text, [database])).rows[0]?.n);

  const exact = await client.query("create extension if not exists pg_stat_statements").then(
    () => true,
    () => false,
  );
  if (exact) await client.query(`alter database ${database} set pg_stat_statements.track = 'top'`);
  else bench.note("pg_stat_statements is not installed: transactions are counted, not statements");
  return {
    count: async () =>
      exact
        ? await readCount(
            `select coalesce(sum(calls), 0) as n from pg_stat_statements s join pg_database d on d.oid = s.dbid
             where d.datname = $1`,
          )
        : await readCount("select xact_commit + xact_rollback as n from pg_stat_database where datname = $1"),
    serverPid: bench.postgresPid,
    end: async () => {
      if (exact) await client.query(`alter database ${database} reset pg_stat_statements.track`);
      await client.end();
    },
  };
}

/** For a system on Redis. The counting command counts as one, so two counts differ by one more than the system sent. */
export async function countCommands(bench: Bench): Promise<StatementCounter> {
  const { redisPort = 0 } = bench.stores;
  const socket = connect(redisPort, "127.0.0.1").setEncoding("utf8");
  await once(socket, "connect");
  let calls = 0;
  return {
    count: async () => {
      socket.write("INFO stats\r\n");
      const [text] = (await once(socket, "data")) as [string];
      return Number(/total_commands_processed:(\d+)/.exec(text)?.[1]) - calls++;
    },
    serverPid: bench.redisPid ?? 0,
    end: async () => void socket.destroy(),
  };
}
