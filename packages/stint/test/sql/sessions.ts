import type { Client } from "pg";
import { onTestFinished } from "vitest";
import type { Run } from "#stint/db/db.js";
import { asText } from "#stint/db/pg.js";
import { forSchema, type Statement } from "#stint/db/statement.js";
import { adminClient } from "../support/database.ts";
import type { Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";

/** One connection that a test steps through a transaction, as a client of ours would. */
export type Session = Run & {
  readonly client: Client;
  begin(): Promise<void>;
  commit(): Promise<void>;
  rollback(): Promise<void>;
  /** Resolves when this session waits for a lock that another one holds. */
  blocked(): Promise<void>;
};

export async function session(fresh: Fresh): Promise<Session> {
  const client = await adminClient(fresh.url);
  onTestFinished(() => client.end());
  const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
  const pid = rows[0]?.pid;
  return {
    client,
    async run(statement: Statement, values: readonly unknown[]) {
      const result = await client.query({
        text: forSchema(statement.text, fresh.schema),
        values: [...values],
        ...(statement.asText ? { types: asText } : {}),
      });
      return result.rows as Record<string, unknown>[];
    },
    async begin() {
      await client.query("begin");
    },
    async commit() {
      await client.query("commit");
    },
    async rollback() {
      await client.query("rollback");
    },
    async blocked() {
      await until(
        async () => {
          const [row] = await fresh.sql<{ n: number }>(`select cardinality(pg_blocking_pids($1)) as n`, [
            pid,
          ]);
          return (row?.n ?? 0) > 0;
        },
        { message: `session ${pid} waits for a lock` },
      );
    },
  };
}

export async function sessions(fresh: Fresh, count: number): Promise<Session[]> {
  return await Promise.all(Array.from({ length: count }, () => session(fresh)));
}
