import { createHash } from "node:crypto";
import type { Client } from "pg";
import { checkSchemaName } from "../model/names.ts";
import { refuseUnknownKeys, requireFunction } from "../model/options.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep } from "../runtime/sleep.ts";
import { openClient } from "./client.ts";
import { files } from "./migration-files.js";
import { requireConnection, toClientConfig, type Connection } from "./connection.ts";
import { dbErrorCategory } from "./sqlstate.ts";
import { forSchema } from "./statement.ts";

export type Migration = {
  readonly version: number;
  readonly name: string;
  readonly text: string;
  /** The oldest schema version that code may be written for and still work after this step. */
  readonly oldestCode: number;
};

export type MigrationStatus = Migration & { readonly appliedAt: Date | null };

export type MigrateOptions = {
  /** A connection string, or its parts. */
  connection: Connection;
  /** The schema of the installation. Default "stint". */
  schema?: string;
  /** Called after each step that was applied. */
  onStep?: (step: Migration) => void;
};

/** Every migration of this release, oldest first. */
export function readMigrations(): Migration[] {
  return Object.entries(files).map(([file, text]) => {
    const version = Number.parseInt(file, 10);
    const oldestCode = Number(/^-- oldest code: (\d+)$/m.exec(text)?.[1] ?? version);
    return { version, name: file.replace(/^\d+_|\.sql$/g, ""), text, oldestCode };
  });
}

/**
 * Bring a schema to this release, one step per transaction. Safe to run twice, from several places at once, and again
 * after a crash in the middle: each step and its version row commit together. Returns the steps that were applied.
 *
 * @throws {InvalidOptionError} The connection is missing, or an option is not valid.
 */
export async function migrate(options: MigrateOptions): Promise<Migration[]> {
  refuseUnknownKeys("migrate", options, ["connection", "schema", "onStep"]);
  const { connection, schema } = checkTarget("migrate", options);
  const { onStep } = options;
  if (onStep !== undefined) requireFunction("migrate.onStep", onStep);
  const steps = readMigrations();
  return await withClient(connection, async (client) => {
    await prepareSchema(client, schema);
    const applied: Migration[] = [];
    for (const step of steps) {
      if (await applyStep(client, schema, step)) {
        applied.push(step);
        onStep?.(step);
      }
    }
    return applied;
  });
}

/** The applied steps, with their times. */
export async function migrationStatus(options: Omit<MigrateOptions, "onStep">): Promise<MigrationStatus[]> {
  refuseUnknownKeys("migrationStatus", options, ["connection", "schema"]);
  const { connection, schema } = checkTarget("migrationStatus", options);
  const steps = readMigrations();
  return await withClient(connection, async (client) => {
    const applied = await appliedSteps(client, schema);
    return steps.map(({ version, name, text, oldestCode }) => {
      return { version, name, text, oldestCode, appliedAt: applied.get(version) ?? null };
    });
  });
}

/** The SQL of every step after `since`, to be applied with another tool. */
export async function migrationSql(schema: string, since = 0): Promise<string> {
  const steps = readMigrations().filter((step) => step.version > since);
  const parts = steps.map((step) => `begin;\n\n${stepSql(schema, step)}\n\ncommit;\n`);
  return [forSchema(bookkeeping, schema), ...parts].join("\n");
}

function checkTarget(
  what: string,
  { connection, schema = "stint" }: MigrateOptions,
): { connection: Connection; schema: string } {
  return {
    connection: requireConnection(`${what}.connection`, connection),
    schema: checkSchemaName(schema, `${what}.schema`),
  };
}

/** Required: without a connection `pg` would use this machine's defaults and migrate that database. */
const bookkeeping = `create schema if not exists stint;

create table if not exists stint.migration (
  version     integer primary key,
  name        text not null,
  oldest_code integer not null,
  checksum    text not null,
  applied_at  timestamptz not null default clock_timestamp()
);
`;

async function prepareSchema(client: Client, schema: string): Promise<void> {
  await retryWhileLocked(async () => {
    await begin(client);
    try {
      await lockMigrations(client, schema);
      // Checked first: a role without the right to create schemas may migrate an existing one.
      const there = await client.query("select from pg_namespace where nspname = $1", [schema]);
      const text = there.rowCount === 0 ? bookkeeping : bookkeeping.replace(/^create schema.*$/m, "");
      await client.query(forSchema(text, schema));
      await client.query("commit");
    } catch (error) {
      await rollback(client);
      throw error;
    }
  });
}

async function applyStep(client: Client, schema: string, step: Migration): Promise<boolean> {
  return await retryWhileLocked(async () => {
    await begin(client);
    try {
      await lockMigrations(client, schema);
      // Read under the lock: another process may have applied the step during the wait.
      const { rowCount } = await client.query(
        forSchema("select from stint.migration where version = $1", schema),
        [step.version],
      );
      if (rowCount === 0) await client.query(stepSql(schema, step));
      await client.query("commit");
      return rowCount === 0;
    } catch (error) {
      await rollback(client);
      throw error;
    }
  });
}

function stepSql(schema: string, step: Migration): string {
  const checksum = createHash("sha256").update(step.text).digest("hex");
  const row = `insert into stint.migration (version, name, oldest_code, checksum)
values (${step.version}, '${step.name}', ${step.oldestCode}, '${checksum}');`;
  return forSchema(`${step.text}\n${row}`, schema);
}

async function begin(client: Client): Promise<void> {
  // Explicit, because the role's default may differ: this transaction must see what another process committed during the wait for the lock.
  await client.query("begin isolation level read committed");
}

async function lockMigrations(client: Client, schema: string): Promise<void> {
  // A step that waits for a table lock blocks every other session behind it, so the wait is short.
  await client.query("set local lock_timeout = '3s'");
  // No limit: counting a large table, or building an index on it, may take long.
  await client.query("set local statement_timeout = 0");
  await client.query("select pg_advisory_xact_lock(hashtextextended('stint migrate ' || $1, 0))", [schema]);
}

async function appliedSteps(client: Client, schema: string): Promise<Map<number, Date>> {
  try {
    // As an integer, independent of the role's date and number styles: behind a pooler no setting may be changed.
    const { rows } = await client.query<{ version: number; at: string }>(
      forSchema(
        "select version, (extract(epoch from applied_at) * 1000)::bigint::text as at from stint.migration",
        schema,
      ),
    );
    return new Map(rows.map((row) => [row.version, new Date(Number(row.at))]));
  } catch (error) {
    if (dbErrorCategory(error) === "schema") return new Map();
    throw error;
  }
}

/** A lost connection rolls back by itself; the error of this rollback must not hide the first one. */
async function rollback(client: Client): Promise<void> {
  await client.query("rollback").catch(() => undefined);
}

/** Retry while a lock is held by another migration, or by a long statement on Stint's tables. */
async function retryWhileLocked<T>(work: () => Promise<T>): Promise<T> {
  const retryDelay = new RetryDelay();
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (dbErrorCategory(error) !== "contention" || tries >= 20) throw error;
      await sleep(retryDelay.next());
    }
  }
}

async function withClient<T>(connection: Connection, work: (client: Client) => Promise<T>): Promise<T> {
  const client = await openClient({
    ...toClientConfig(connection),
    application_name: "stint migrate",
    connectionTimeoutMillis: 10_000,
  });
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
