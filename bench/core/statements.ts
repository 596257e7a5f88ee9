import { connect } from "node:net";
import { once } from "node:events";
import { Client } from "pg";
import type { Bench } from "./scenario.ts";

/** Counts what a system sends to its store, without adding to it. */
export type StatementCounter = {
  /** Statements until now; only the difference of two means something. */
  count(): Promise<number>;
  readonly serverPid: number;
  end(): Promise<void>;
};

/** For a system on Postgres. Call it before the actors connect: sessions that are open already are not counted. */
export async function countStatements(bench: Bench): Promise<StatementCounter> {
  const url = new URL(bench.stores.postgres);
  const database = url.pathname.slice(1);
  // Elsewhere, because whatever asks is counted where it asks.
  url.pathname = "/postgres";
  const client = new Client({ connectionString: url.href });
  client.on("error", () => undefined);
  await client.connect();
  const ask = async (text: string): Promise<number> =>
    Number((await client.query<{ n: string }>(text, [database])).rows[0]?.n);

  const exact = await client.query("create extension if not exists pg_stat_statements").then(
    () => true,
    () => false,
  );
  if (exact) await client.query(`alter database ${database} set pg_stat_statements.track = 'top'`);
  else bench.note("pg_stat_statements is not there: transactions are counted, not statements");
  return {
    count: async () =>
      exact
        ? await ask(
            `select coalesce(sum(calls), 0) as n from pg_stat_statements s join pg_database d on d.oid = s.dbid
             where d.datname = $1`,
          )
        : await ask("select xact_commit + xact_rollback as n from pg_stat_database where datname = $1"),
    serverPid: bench.postgresPid,
    end: async () => {
      if (exact) await client.query(`alter database ${database} reset pg_stat_statements.track`);
      await client.end();
    },
  };
}

/** For a system on Redis. Our own question counts as one, so two counts differ by one more than was sent. */
export async function countCommands(bench: Bench): Promise<StatementCounter> {
  const { redisPort = 0 } = bench.stores;
  const socket = connect(redisPort, "127.0.0.1").setEncoding("utf8");
  await once(socket, "connect");
  let asked = 0;
  return {
    count: async () => {
      socket.write("INFO stats\r\n");
      const [text] = (await once(socket, "data")) as [string];
      return Number(/total_commands_processed:(\d+)/.exec(text)?.[1]) - asked++;
    },
    serverPid: bench.redisPid ?? 0,
    end: async () => void socket.destroy(),
  };
}
