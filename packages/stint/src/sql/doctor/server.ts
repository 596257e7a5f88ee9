import type { Run } from "../../db/db.ts";
import { columns, flag, number, numberOrNull, readMany, readOne, text, textOrNull } from "../../db/row.ts";
import { statement } from "../../db/statement.ts";

const selectServer = statement(
  "doctor-server",
  `
  select
    current_setting('server_version_num')::integer as version,
    current_setting('server_version') as "versionText",
    pg_is_in_recovery() as standby,
    current_setting('default_transaction_read_only')::boolean as "readOnly",
    pg_has_role(current_user, 'pg_read_all_stats', 'usage') as "seesAll"`,
);

const toServerFacts = columns({
  /** As in 170002. */
  version: number,
  versionText: text,
  standby: flag,
  readOnly: flag,
  /** Whether the role may see the sessions of other roles. */
  seesAll: flag,
});
export type ServerFacts = ReturnType<typeof toServerFacts>;

export async function serverFacts(db: Run): Promise<ServerFacts> {
  return await readOne(db, selectServer, [], toServerFacts);
}

const selectSettings = statement(
  "doctor-settings",
  `
  select name, setting, unit
  from pg_settings
  where name = any ($1)`,
);

export type Setting = { name: string; setting: string; unit: string | null };

const toSetting = columns<Setting>({ name: text, setting: text, unit: textOrNull });

/** The server's defaults. */
export async function settingsNamed(db: Run, names: readonly string[]): Promise<Setting[]> {
  return await readMany(db, selectSettings, [names], toSetting);
}

/** Sent unchanged, to measure the round trip and to see which backend responds. */
export const whoAndWhen = statement(
  "doctor-clock",
  `select pg_backend_pid() as pid, (extract(epoch from clock_timestamp()) * 1000)::float8 as at, current_setting('TimeZone') as zone`,
);

export const notify = statement("doctor-notify", `select pg_notify($1, '')`);

const selectConnections = statement(
  "doctor-connections",
  `
  select
    current_setting('max_connections')::integer as most,
    (current_setting('superuser_reserved_connections')::integer
      + coalesce(current_setting('reserved_connections', true), '0')::integer) as reserved,
    count(*)::integer as used,
    count(*) filter (where starts_with(application_name, 'stint'))::integer as ours,
    (select nullif(rolconnlimit, -1) from pg_roles where rolname = current_user) as "roleMost",
    count(*) filter (where usename = current_user)::integer as "roleUsed",
    (select nullif(datconnlimit, -1) from pg_database where datname = current_database()) as "databaseMost",
    count(*) filter (where datname = current_database())::integer as "databaseUsed",
    $1::integer as processes
  from pg_stat_activity
  where backend_type = 'client backend'`,
);

const toConnectionFacts = columns({
  most: number,
  /** Reserved for superusers and, since Postgres 16, for roles with `pg_use_reserved_connections`. */
  reserved: number,
  used: number,
  ours: number,
  /** Of the role and of the database; null without one. */
  roleMost: numberOrNull,
  roleUsed: number,
  databaseMost: numberOrNull,
  databaseUsed: number,
  /** Processes that run workers. */
  processes: number,
});
export type ConnectionFacts = ReturnType<typeof toConnectionFacts>;

export async function connectionFacts(db: Run, processes: number): Promise<ConnectionFacts> {
  return await readOne(db, selectConnections, [processes], toConnectionFacts);
}

const selectNotifications = statement("doctor-notifications", `select pg_notification_queue_usage() as used`);

/** How full the queue of notifications is, from 0 to 1. All databases of the server share it. */
export async function notificationsUsed(db: Run): Promise<number> {
  return await readOne(db, selectNotifications, [], (row) => number(row, "used"));
}
