/** Settings of a session by their names. */
export type Settings = Readonly<Record<string, string>>;

/**
 * Settings that Stint's statements need, independent of the defaults of the role and the database: times in one style and a zone
 * without daylight saving, so that their texts sort by time; numbers with all digits; standard text and array syntax; and read
 * committed isolation.
 */
export const ownSettings: Settings = {
  datestyle: "ISO",
  timezone: "UTC",
  extra_float_digits: "1",
  array_nulls: "on",
  standard_conforming_strings: "on",
  default_transaction_isolation: "read committed",
};

/**
 * Time limits of the role are meant for the application's statements. A cancelled renewal or settle would cost the lease, and the job
 * would count a crash. Stint's statements have deadlines instead: the client stops waiting, and the server refuses late statements.
 */
export const noTimeLimits: Settings = { statement_timeout: "0", lock_timeout: "0", transaction_timeout: "0" };

/**
 * In handlers' transactions the role's defaults apply, with two exceptions: the driver reads times in ISO style only, and writes arrays
 * whose NULL means null. The statement that settles the job also runs there.
 */
export const handlerSettings: Settings = { datestyle: "ISO", array_nulls: "on" };

/**
 * The first statement on a connection. It changes the session only if the session is not pooled. A pooler gives its clients keys of its
 * own, so the process ids differ there. A pooled session is shared, and a setting would reach other clients.
 */
export function firstStatement(settings: Settings, loggedIn: number | null): string {
  const ownSession = `pg_catalog.pg_backend_pid() = ${loggedIn ?? 0}`;
  const columns = calls(settings, false).map((call) => `case when ${ownSession} then ${call} end`);
  return `/* stint:settings */ select ${["pg_catalog.pg_backend_pid() as pid", ...columns].join(", ")}`;
}

/** The same settings for one transaction only. */
export function localSettings(settings: Settings): string {
  return `/* stint:local-settings */ select ${calls(settings, true).join(", ")}`;
}

/** Older servers lack these settings. */
const sinceVersion17 = new Set(["transaction_timeout"]);

function calls(settings: Settings, local: boolean): string[] {
  return Object.entries(settings).map(([name, value]) => {
    const call = `pg_catalog.set_config('${name}', '${value}', ${local})`;
    return sinceVersion17.has(name)
      ? `case when pg_catalog.current_setting('${name}', true) is not null then ${call} end`
      : call;
  });
}

/**
 * Everything that `discard all` resets, except prepared statements of the protocol, which belong to Stint and to query builders: the
 * driver assumes that they still exist.
 */
export const resetSession = `/* stint:reset */
close all;
set session authorization default;
reset role;
reset all;
select ${calls(handlerSettings, false).join(", ")};
unlisten *;
select pg_catalog.pg_advisory_unlock_all();
discard temp;
discard sequences;
do $reset$
declare
  v_name text;
begin
  for v_name in select name from pg_catalog.pg_prepared_statements where from_sql loop
    execute pg_catalog.format('deallocate %I', v_name);
  end loop;
end
$reset$`;

/** The start of the transaction in microseconds. A handler can change it only by ending the transaction. */
export const transactionTime = `select (extract(epoch from pg_catalog.transaction_timestamp()) * 1000000)::bigint::text as at`;
