import type { Text, Variant } from "./server-cost.ts";

type Db = { run(statement: { text: string }): Promise<never> };
type Build = {
  migrate: Variant["migrate"];
  enqueue: (db: Db, rows: readonly unknown[], notify: boolean) => Promise<unknown>;
  claim: (db: Db, input: unknown) => Promise<unknown>;
  succeed: (db: Db, fences: readonly unknown[]) => Promise<unknown>;
};

/** The migrations and the three statements of a build: of this checkout, or of another one to compare it with. */
export async function build(
  checkout: URL,
): Promise<Pick<Variant, "migrate" | "enqueue" | "claim" | "settle">> {
  const load = async (file: string): Promise<Partial<Build>> =>
    (await import(new URL(`packages/stint/dist/${file}`, checkout).href)) as Partial<Build>;
  const files = await Promise.all(["dev.js", "sql/enqueue.js", "sql/claim.js", "sql/succeed.js"].map(load));
  const { migrate, enqueue, claim, succeed } = Object.assign({}, ...files) as Build;
  const takes = [{ queue: "default", limit: 1 }];
  const input = { worker: "w", leaseId: "", kinds: ["noop"], kindLeaseMs: {}, leaseMs: 30_000, takes };
  const fence = { job: "", epoch: 1, leaseId: "" };
  const row = { row: { id: "", kind: "noop", queue: "default" }, payload: "{}", meta: undefined };
  return {
    migrate,
    enqueue: {
      text: await sentBy((db) => enqueue(db, [row], true)),
      values: ["ids", '{"noop"}', '{"default"}', "payloads", null, true, null],
    },
    claim: {
      text: await sentBy((db) => claim(db, input)),
      values: ["{}", 30_000, "lease", "host-1234-abcd", ["noop"], "infinity", ["default"], "limit"],
    },
    settle: { text: await sentBy((db) => succeed(db, [fence])), values: ["fences", "leases", "count"] },
  };
}

/** The text of the statement that a function of sql/ sends. */
async function sentBy(call: (db: Db) => Promise<unknown>): Promise<string> {
  let sent = "";
  const captured = new Error("captured");
  const run = async ({ text }: { text: string }): Promise<never> => {
    sent = text;
    return await Promise.reject(captured);
  };
  await call({ run }).catch((error: unknown) => {
    if (error !== captured) throw error;
  });
  return sent;
}

export async function variants(): Promise<Variant[]> {
  const base = await build(new URL("../../", import.meta.url));
  const { claim: product, settle } = base;
  const [claimText, settleText] = [product.text, settle.text];
  const settled = (text: string): Text => ({ ...settle, text });
  const returning = "returning id, kind, queue, run_at, payload";
  return [
    { name: "as it is", ...base },
    { name: "brin", ...base, schema: brin },
    { name: "no index on history", ...base, schema: `drop index stint.history_id;` },
    {
      name: "no history",
      ...base,
      settle: settled(
        cut(settleText, /insert into stint\.history \([^)]*\)\s+select [^\n]* from gone/, "select"),
      ),
    },
    { name: "no checks", ...base, schema: noChecks },
    { name: "no lease index", ...base, schema: `drop index stint.job_lease;` },
    {
      name: "no tallies",
      ...base,
      settle: settled(cut(settleText, /, tallied as \([^]*?\n {2}\)\n {2}select case/, "\n  select case")),
    },
    {
      name: "reads back every fence",
      ...base,
      settle: settled(
        cut(
          settleText,
          /select case when [^]*$/,
          `select case when count(*) < $5::integer
             then coalesce(array_agg(id || ' ' || epoch || ' ' || lease_id), '{}') end as settled from gone`,
        ),
      ),
    },
    {
      name: "settle by place",
      ...base,
      claim: { ...product, text: cut(claimText, returning, `${returning}, j.ctid as place`) },
      settle: { values: settle.values, text: byPlace(settleText) },
      settledBy: ["id", "epoch", "place"],
    },
    {
      name: "claim returns id only",
      ...base,
      claim: { ...product, text: cut(claimText, /returning [^]*$/, "returning id") },
    },
    {
      name: "claim returns every column",
      ...base,
      claim: {
        ...product,
        text: cut(
          claimText,
          /returning [^]*$/,
          `returning id, kind, queue, nullif(priority, 0) as priority, run_at, nullif(created_at, run_at) as created_at,
             nullif(attempts, 1) as attempts, nullif(crashes, 0) as crashes, nullif(faults, 0) as faults, nullif(epoch, 1) as epoch,
             nullif(run, 1) as run, max_attempts, max_crashes, timeout_ms, lease_ms, key, tenant, tags, meta, payload`,
        ),
      },
    },
    {
      name: "no row locks",
      ...base,
      claim: { ...product, text: cut(claimText, "for update skip locked", "") },
    },
    {
      name: "state as text",
      ...base,
      claim: {
        ...product,
        text: cut(claimText, "j.state >= 'ready' and j.state <= 'ready'", "j.state::text = 'ready'"),
      },
    },
    { name: "full primary key", ...base, schema: `alter index stint.job_pkey set (fillfactor = 90);` },
    { name: "unlogged", ...base, schema: unlogged },
  ];
}

/** The settle finds each row by the place that its claim returned, instead of by its id. */
function byPlace(text: string): string {
  const changes: [string, string][] = [
    ["select m.id, m.epoch", "select m.id, m.epoch, m.place"],
    [
      "(select $2::bigint[]), (select $4::integer[])) as m (id, epoch, lease)",
      "(select $2::bigint[]), (select $3::tid[]), (select $5::integer[])) as m (id, epoch, place, lease)",
    ],
    ["($3::uuid[])[m.lease]", "($4::uuid[])[m.lease]"],
    ["where j.id = m.id", "where j.ctid = m.place and j.id = m.id"],
    ["< $5::integer", "< $6::integer"],
  ];
  return changes.reduce((changed, [what, by]) => cut(changed, what, by), text);
}

function cut(text: string, what: RegExp | string, by: string): string {
  const changed = text.replace(what, by);
  if (changed === text) throw new Error(`no ${String(what)} in ${text}`);
  return changed;
}

const noChecks = `
  do $$ declare c text; begin
    for c in select conname from pg_constraint where conrelid = 'stint.job'::regclass and contype = 'c' loop
      execute format('alter table stint.job drop constraint %I', c);
    end loop;
  end $$`;

const brin = `
  drop index stint.history_id;
  create index history_id on stint.history using brin (id uuid_minmax_multi_ops)`;

const unlogged = `
  alter table stint.job set unlogged;
  do $$ declare c regclass; begin
    for c in select relid from pg_partition_tree('stint.history') where isleaf loop
      execute format('alter table %s set unlogged', c);
    end loop;
  end $$`;
