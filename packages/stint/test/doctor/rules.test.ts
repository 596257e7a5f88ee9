import { expect, test } from "vitest";
import { clockRule } from "#stint/doctor/checks/clock.js";
import { connectionsRule } from "#stint/doctor/checks/connections.js";
import { driftRule } from "#stint/doctor/checks/drift.js";
import { horizonRule } from "#stint/doctor/checks/horizon.js";
import { indexesRule } from "#stint/doctor/checks/indexes.js";
import { kindsRule } from "#stint/doctor/checks/kinds.js";
import { numbersRule } from "#stint/doctor/checks/numbers.js";
import { poolerRule } from "#stint/doctor/checks/pooler.js";
import { serverRule } from "#stint/doctor/checks/server.js";
import { vacuumRule } from "#stint/doctor/checks/vacuum.js";

// What cannot be brought about in a test, or not within its time.

const server = { version: 170_002, versionText: "17.2", standby: false, readOnly: false, seesAll: true };

test.each([
  [{}, []],
  [{ version: 130_009, versionText: "13.9" }, ["error Postgres is too old"]],
  [{ version: 210_000 }, ["note Postgres is newer than the versions this release was tested on"]],
  [{ standby: true, readOnly: true }, ["error This is a standby"]],
  [{ readOnly: true }, ["error Transactions are read-only by default"]],
])("server %j", (facts, expected) => {
  const { findings } = serverRule({ ...server, ...facts });

  expect(findings.map(({ level, title }) => `${level} ${title}`)).toEqual(expected);
});

test.each([
  [{ aheadMs: 3_000, roundTripMs: 10 }, "it is 3 s ahead of the database"],
  [{ aheadMs: -90_000, roundTripMs: 10 }, "it is 1 min 30 s behind the database"],
  [{ aheadMs: 900, roundTripMs: 10 }, undefined],
  // Half of the round trip may be the whole difference.
  [{ aheadMs: 2_000, roundTripMs: 3_000 }, undefined],
])("clock %j", (facts, what) => {
  expect(clockRule({ ...facts, zone: "UTC" }).findings[0]?.what).toBe(what);
});

const plain = { moves: false, keepsPrepared: true, deliversNotifications: true };
const lossy = { moves: true, keepsPrepared: false, deliversNotifications: false };
test.each([
  [plain, { prepare: true, notify: true }, []],
  [lossy, { prepare: true, notify: true }, ["error", "warning"]],
  [{ ...lossy, keepsPrepared: true }, { prepare: true, notify: false }, ["warning"]],
  [{ ...lossy, keepsPrepared: true }, { prepare: false, notify: false }, ["note"]],
  [lossy, { prepare: false, notify: true }, ["warning"]],
  [lossy, { prepare: false, notify: false }, ["note"]],
])("pooler %j for %j", (facts, uses, levels) => {
  expect(poolerRule(facts, uses).findings.map((finding) => finding.level)).toEqual(levels);
});

const connections = {
  most: 100,
  reserved: 3,
  used: 20,
  ours: 6,
  roleMost: null,
  roleUsed: 20,
  databaseMost: null,
  databaseUsed: 20,
  processes: 2,
};
test.each([
  [{}, []],
  [{ used: 80 }, ["warning: 80 of 97 are open"]],
  [{ used: 96 }, ["error: 96 of 97 are open"]],
  [{ roleMost: 20 }, ["error: 20 of 20 are open"]],
  [{ databaseMost: 24 }, ["warning: 20 of 24 are open"]],
])("connections %j", (facts, expected) => {
  const { findings } = connectionsRule({ ...connections, ...facts });

  expect(findings.map(({ level, what }) => `${level}: ${what}`)).toEqual(expected);
});

test("a standby and a slot that pin the horizon come with their fix", () => {
  const pin = { user: null, ageMs: null, behind: 5_000_000 };
  const { findings } = horizonRule(
    [
      { ...pin, by: "slot", id: "old'standby", name: "physical", state: "inactive" },
      { ...pin, by: "standby", id: "10.0.0.7", name: "walreceiver", state: "streaming" },
      { ...pin, by: "session", id: "7", name: "psql", state: "active", ageMs: 3_600_000 },
    ],
    [{ slot: "cdc", type: "logical", active: false, catalogBehind: 5, keptBytes: 5 * 2 ** 30 }],
  );

  expect(findings.map((finding) => [finding.level, finding.fix])).toEqual([
    ["error", expect.stringContaining("pg_drop_replication_slot('old''standby');")],
    ["warning", expect.stringContaining("hot_standby_feedback = off")],
    ["error", expect.stringContaining("pg_terminate_backend(7);")],
    ["warning", expect.stringContaining("pg_drop_replication_slot('cdc');")],
  ]);
});

test.each([
  ["sequence tally_id_seq", 0.4, []],
  ["sequence tally_id_seq", 0.6, ["warning"]],
  ["transaction ids of this database", 0.9, ["error"]],
])("numbers: %s used to %d", (what, share, levels) => {
  const { findings } = numbersRule([{ what, used: share * 2 ** 31, most: 2 ** 31 }], "stint");

  expect(findings.map((finding) => finding.level)).toEqual(levels);
});

const table = {
  table: "job",
  live: 100,
  dead: 0,
  bytes: 4e6,
  indexBytes: 1e6,
  liveBytes: 20_000,
  sinceVacuumMs: 60_000,
  threshold: 2_000,
  vacuumOff: false,
  vacuuming: false,
};
test.each([
  [{}, []],
  [{ dead: 19_000 }, []],
  [{ dead: 500_000 }, ["warning Vacuum is far behind"]],
  [{ bytes: 900e6 }, ["note A table is much larger than its live rows need"]],
  [{ bytes: 900e6, liveBytes: 500e6 }, []],
  [{ vacuumOff: true, dead: 500_000 }, ["error Autovacuum is off for a table, so dead rows pile up"]],
])("vacuum %j", (facts, expected) => {
  const { findings } = vacuumRule([{ ...table, ...facts }], "stint");

  expect(findings.map(({ level, title }) => `${level} ${title}`)).toEqual(expected);
});

test("the SQL and commands of a fix are safe for any object name", () => {
  const evil = 'x"; drop table users; --';
  const quoted = '"my_jobs"."x""; drop table users; --"';
  const rules = [
    indexesRule([{ index: evil, table: "job", definition: "" }], "my_jobs"),
    indexesRule([{ index: `${evil}_ccnew`, table: "job", definition: "" }], "my_jobs"),
    numbersRule([{ what: `sequence ${evil}`, used: 9, most: 10 }], "my_jobs"),
    vacuumRule([{ ...table, table: evil, vacuumOff: true, bytes: 900e6 }], "my_jobs"),
    vacuumRule([{ ...table, table: evil, dead: 500_000 }], "my_jobs"),
    driftRule(
      [{ what: `storage settings of table ${evil}`, definition: "fillfactor=10" }],
      [{ what: `storage settings of table ${evil}`, definition: "" }],
      "my_jobs",
    ),
  ];
  const fixes = rules.flatMap(({ findings }) => findings.map(({ fix }) => fix));
  expect(fixes).toHaveLength(7);
  for (const fix of fixes) expect(fix.replace("_ccnew", "")).toContain(quoted);

  const [kind] = kindsRule(
    [{ kind: "a'; rm -rf ~", queue: "q", oldest: new Date(0) }],
    0,
    "my_jobs",
  ).findings;
  expect(kind?.fix).toContain(
    `\`npx stint jobs cancel --state ready --kind 'a'\\''; rm -rf ~' --queue q --reason '…' --schema my_jobs\`.`,
  );
});

test("the printed commands name the schema that was checked", () => {
  const thing = { what: "function claim()", definition: "a" };
  const fixes = [
    driftRule([], [thing], "billing"),
    driftRule([{ ...thing, definition: "b" }], [thing], "billing"),
  ];
  for (const { findings } of fixes)
    expect(findings[0]?.fix).toContain("`npx stint migrate --sql --schema billing`,");
});
