import { randomBytes } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { createStint, defineJob, handle, PermanentError, silentLogger, typed } from "#stint/index.js";
import { migrate } from "#stint/db/migrate.js";
import { forSchema } from "#stint/db/statement.js";
import { grantSql, type GrantRole } from "#stint/sql/grants.js";
import { adminClient, query, testDatabaseUrl } from "../support/database.ts";
import { freshSchema, openDb } from "../support/fresh.ts";
import { calls } from "./statements.ts";

type Role = { name: string; url: string };

/** A role of the test's own, without any right, gone when the test is over. */
async function newRole(): Promise<Role> {
  const name = `stint_test_${randomBytes(6).toString("hex")}`;
  const password = randomBytes(12).toString("hex");
  await query(`create role "${name}" login nosuperuser password '${password}'`);
  onTestFinished(async () => {
    await query(`drop owned by "${name}" cascade`).catch(() => undefined);
    await query(`drop role "${name}"`).catch(() => undefined);
  });
  const url = new URL(testDatabaseUrl());
  url.username = name;
  url.password = password;
  return { name, url: url.href };
}

async function databaseName(): Promise<string> {
  return (await query<{ name: string }>(`select current_database() as name`))[0]?.name ?? "";
}

/** Runs the printed script for a role, as the owner of the schema. */
async function grant(rights: GrantRole, to: Role, schema: string, asUrl = testDatabaseUrl()): Promise<void> {
  const client = await adminClient(asUrl);
  await client.query(grantSql(rights, { role: to.name, database: await databaseName(), schema }));
  await client.end();
}

/** Which calls a role may make, and with which SQLSTATE the others end. */
async function tryAll(
  role: Role,
  schema: string,
): Promise<{ allowed: string[]; codes: Set<string | undefined> }> {
  const db = openDb(role.url, schema);
  const allowed: string[] = [];
  const codes = new Set<string | undefined>();
  for (const [name, call] of Object.entries(calls)) {
    await call(db).then(
      () => allowed.push(name),
      (error: { code?: string }) => codes.add(error.code),
    );
  }
  await db.close();
  return { allowed, codes };
}

test("an owner without superuser rights installs the schema and grants its roles", async () => {
  const [owner, worker] = [await newRole(), await newRole()];
  const schema = `owned_${randomBytes(6).toString("hex")}`;
  onTestFinished(async () => {
    await query(`drop schema if exists "${schema}" cascade`);
  });
  await query(grantSql("owner", { role: owner.name, database: await databaseName() }));

  await migrate({ connection: owner.url, schema });
  await migrate({ connection: owner.url, schema });
  await grant("worker", worker, schema, owner.url);

  const { allowed } = await tryAll(worker, schema);
  expect(allowed).toEqual(Object.keys(calls));
});

test("the worker role may make every call of the library, and no other", async () => {
  const fresh = await freshSchema();
  const role = await newRole();
  await grant("worker", role, fresh.schema);

  const { allowed } = await tryAll(role, fresh.schema);
  const ddl = await query(`drop table "${fresh.schema}".job`, [], role.url).catch(
    (error: { code: string }) => error.code,
  );
  const forge = await query(`update "${fresh.schema}".audit set actor = 'x'`, [], role.url).catch(
    (error: { code: string }) => error.code,
  );

  expect(allowed).toEqual(Object.keys(calls));
  expect([ddl, forge]).toEqual(["42501", "42501"]);
});

test("a worker with only the worker role runs, retries, cancels, replays and stops", async () => {
  const fresh = await freshSchema();
  const role = await newRole();
  await grant("worker", role, fresh.schema);
  const job = defineJob("chore", {
    payload: typed<{ does: string }>(),
    result: typed<string>(),
    attempts: 2,
  });
  const stint = createStint({ database: role.url, schema: fresh.schema, logger: silentLogger });
  onTestFinished(() => stint.close());
  const worker = stint.worker({
    pools: { default: 3 },
    signals: false,
    backoff: () => 0,
    handlers: [
      handle(job, ({ payload, attempt }) => {
        if (payload.does === "fail once" && attempt === 1) throw new Error("once");
        if (payload.does === "die") throw new PermanentError("for good");
        return payload.does;
      }),
    ],
  });
  await worker.start();

  const results = await Promise.allSettled(
    ["succeed", "fail once", "die"].map(
      async (does) => await stint.waitFor(await stint.enqueue(job, { does }), { timeout: "60s" }),
    ),
  );
  const later = await stint.enqueue(job, { does: "succeed" }, { delay: "1h" });
  const cancelled = await stint.cancel(later.id);
  await stint.replay(later.id, { reason: "changed my mind" });
  const replayed = await stint.waitFor(later, { timeout: "60s" });
  await worker.stop();

  expect(results.map((result) => result.status)).toEqual(["fulfilled", "fulfilled", "rejected"]);
  expect([cancelled, replayed]).toEqual(["cancelled", "succeed"]);
});

test("an enqueue-only role can enqueue and signal, and nothing else", async () => {
  const fresh = await freshSchema();
  const role = await newRole();
  await grant("enqueue", role, fresh.schema);
  const stint = createStint({ database: role.url, schema: fresh.schema, logger: silentLogger });
  onTestFinished(() => stint.close());

  const { id } = await stint.enqueue(defineJob("chore", { payload: typed<number>() }), 1, {
    dedupe: { key: "a", until: "1h" },
  });
  const client = await adminClient(role.url);
  await client.query(`select "${fresh.schema}".enqueue('chore', '1', '{"queue": "default"}')`);
  await client.query(
    `select * from "${fresh.schema}".enqueue_many('[{"kind": "chore", "options": {"queue": "default"}}]')`,
  );
  const refused: (string | undefined)[] = [];
  for (const attempt of [
    `select from stint.job`,
    `select from stint.jobs`,
    `select from stint.history`,
    `select from stint.kind`,
    `insert into stint.job default values`,
    `delete from stint.dedupe_window`,
    `select stint.enqueue_row('{}', now())`,
    `select stint.make_partitions(3)`,
    `select stint.set_queue('a', '{"targetAge": 1}', 'because')`,
    `select stint.forget_queue('a', 'because')`,
    `select from stint.queue`,
    `insert into stint.queue (name, updated_by) values ('a', 'x')`,
    `select stint.drop_partitions(now())`,
    `create table stint.mine ()`,
  ]) {
    await client
      .query(forSchema(attempt, fresh.schema))
      .catch((error: { code: string }) => refused.push(error.code));
  }
  await client.end();
  const { allowed, codes } = await tryAll(role, fresh.schema);

  expect(id).toBeTruthy();
  expect(await fresh.sql(`select from stint.job where kind = 'chore'`)).toHaveLength(3);
  expect(refused).toEqual(Array.from({ length: 14 }, () => "42501"));
  expect(allowed).toEqual([
    "databaseNow",
    "admission",
    "notifyEnded",
    "claimWindow",
    "enqueue",
    "enqueueAgain",
    "noteTransaction",
    "enqueueInside",
    "enqueueAgainInside",
    "wake",
    "checkSchemaVersion",
    "endTransaction",
    "transactionIdInside",
    "commitStatuses",
    "sendSignalOnce",
    "sendSignalInside",
  ]);
  expect(codes).toEqual(new Set(["42501"]));
});

test("a read-only role reads everything and changes nothing", async () => {
  const fresh = await freshSchema();
  const role = await newRole();
  await grant("read", role, fresh.schema);

  const { allowed, codes } = await tryAll(role, fresh.schema);
  const tables = await query<{ name: string }>(
    `select c.relname as name from pg_class c
     where c.relnamespace = $1::regnamespace and c.relkind in ('r', 'p', 'v') and not c.relispartition
       and not has_table_privilege($2, c.oid, 'select')`,
    [fresh.schema, role.name],
  );

  expect(allowed).toEqual([
    "walk",
    "countWalk",
    "databaseNow",
    "size",
    "gather",
    "countGather",
    "deadGroups",
    "waitingTenants",
    "closeJob",
    "flowPlace",
    "surroundings",
    "findOperation",
    "latestOperations",
    "pauses",
    "pauseAudit",
    "knownPauses",
    "limits",
    "limitKeys",
    "limitAudit",
    "dependencies",
    "dependencyDelays",
    "dependencyAudit",
    "notifyEnded",
    "tenants",
    "findReadyQueues",
    "claimedBy",
    "claimWindow",
    "idleCheck",
    "idleCheckPools",
    "noteTransaction",
    "get",
    "list",
    "finished",
    "dependencyResults",
    "lastOfChain",
    "jobFlow",
    "listFlows",
    "findFlow",
    "partsOf",
    "auditOf",
    "controlChanges",
    "unserved",
    "stateOf",
    "queues",
    "queueSettings",
    "queueAudit",
    "checkSchemaVersion",
    "endTransaction",
    "lastCheckpoint",
    "progressOf",
    "findInside",
    "transactionIdInside",
    "commitStatuses",
    "rememberedSteps",
    "stepResult",
    "stepsOf",
    "signalsOf",
    "settledByOwner",
    "listWorkers",
    "latestStops",
    "getSchedule",
    "listSchedules",
    "slotsOfSchedule",
    "latestSlots",
    "countSchedules",
    "scheduleAudit",
    "dueSchedules",
    "recentRuns",
    "depths",
    "standing",
    "fleet",
    "poolLoad",
    "workerActivity",
    "runningJobs",
    "knownKinds",
    "seriesSteps",
    "samples",
    "lately",
    "recent",
    "topTenants",
    "arrivals",
  ]);
  expect(codes).toEqual(new Set(["42501"]));
  expect(tables).toEqual([]);
});

test("a role without a grant has no right in the schema", async () => {
  const fresh = await freshSchema();

  const open = await query(
    `select 'schema' as what, nspname::text as name
     from pg_namespace n, aclexplode(coalesce(nspacl, acldefault('n', nspowner))) a
     where nspname = $1 and a.grantee = 0
     union all
     select 'relation', relname::text
     from pg_class c, aclexplode(coalesce(relacl, acldefault('r', relowner))) a
     where relnamespace = $1::regnamespace and a.grantee = 0
     union all
     select 'function', proname::text
     from pg_proc p, aclexplode(coalesce(proacl, acldefault('f', proowner))) a
     where pronamespace = $1::regnamespace and a.grantee = 0
     union all
     select 'type', typname::text
     from pg_type t, aclexplode(coalesce(typacl, acldefault('T', typowner))) a
     where typnamespace = $1::regnamespace and a.grantee = 0 and typtype = 'e'`,
    [fresh.schema],
  );

  expect(open).toEqual([]);
});

test("every function that runs with its owner's rights has a search path of its own", async () => {
  const fresh = await freshSchema();

  const functions = await query<{ name: string; config: string[] | null }>(
    `select proname as name, proconfig as config from pg_proc where pronamespace = $1::regnamespace and prosecdef`,
    [fresh.schema],
  );

  expect(functions.length).toBeGreaterThan(5);
  for (const { name, config } of functions) {
    expect([name, config?.[0]]).toEqual([name, "search_path=pg_catalog, pg_temp"]);
  }
});

test("the owner's rights never reach fake objects at the front of the search path", async () => {
  const fresh = await freshSchema();
  const role = await newRole();
  await grant("enqueue", role, fresh.schema);
  const evil = `evil_${randomBytes(6).toString("hex")}`;
  await query(`create schema "${evil}" authorization "${role.name}"`);
  const client = await adminClient(role.url);
  await client.query(`set search_path = "${evil}", pg_catalog`);
  await client.query(`
    create table ${evil}.caught (who text);
    create function ${evil}.catch() returns void language sql as $$ insert into ${evil}.caught values (current_user) $$;
    create function ${evil}.jsonb_array_elements(jsonb) returns setof jsonb language sql as $$ select ${evil}.catch(); select $1 $$;
    create function ${evil}.jsonb_each(jsonb) returns table (key text, value jsonb) language sql as $$ select ${evil}.catch(); select 'a', $1 $$;
    create function ${evil}.jsonb_typeof(jsonb) returns text language sql as $$ select ${evil}.catch(); select 'object' $$;
    create function ${evil}.clock_timestamp() returns timestamptz language sql as $$ select ${evil}.catch(); select now() $$;
    create function ${evil}.gen_random_uuid() returns uuid language sql as $$ select ${evil}.catch(); select null::uuid $$;
    create function ${evil}.pg_notify(text, text) returns void language sql as $$ select ${evil}.catch() $$;
    create function ${evil}.arrow(jsonb, text) returns text language sql as $$ select ${evil}.catch(); select 'x' $$;
    create operator ${evil}.->> (leftarg = jsonb, rightarg = text, function = ${evil}.arrow);
    create temp table kind (name text, queue text);
    create temp table job (id uuid);`);
  const works = await client.query(`select jsonb_typeof('1') as fake`);

  await client.query(`delete from ${evil}.caught`);
  await client.query(
    `select "${fresh.schema}".enqueue('chore', '{"a": 1}', '{"queue": "q", "delay": "5s", "dedupe": {"key": "k", "until": "5m"}}')`,
  );
  await client.query(
    `select * from "${fresh.schema}".enqueue_many('[{"kind": "chore", "options": {"queue": "q"}}]')`,
  );
  const caught = await client.query(`select who from ${evil}.caught`);
  await client.end();

  expect(works.rows).toEqual([{ fake: "object" }]);
  expect(caught.rows).toEqual([]);
  expect(await fresh.sql(`select from stint.job`)).toHaveLength(2);
});

test("a grant script quotes any role name", () => {
  const text = grantSql("owner", { role: 'a"b:database$&', database: "stint.job :role", schema: "other" });

  expect(text).toContain('grant create on database "stint.job :role" to "a""b:database$&";');
});
