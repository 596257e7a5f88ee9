import * as fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { forSchema } from "#stint/db/statement.js";
import { adminClient } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { commandLists, type Command } from "./commands.ts";
import { breachesOf, readHistory, recordHistory, type Change } from "./history.ts";
import type { ModelJob } from "./reference.ts";
import { World } from "./world.ts";

// Replay a failure with STINT_TEST_SEED=<the seed it printed>.
const seed = Number(process.env["STINT_TEST_SEED"] ?? Math.floor(Math.random() * 2 ** 31));

test("for any sequence of commands, the SQL returns and stores what the model does", async () => {
  const fresh = await freshOnOneConnection();
  await recordHistory(fresh);
  const seen = new Map<string, number>();

  const property = fc.asyncProperty(commandLists, async (commands) => {
    await clear(fresh);
    const world = new World(fresh);
    for (const command of commands) {
      const { real, model } = await world.run(command);
      expect({ command, answer: real }).toEqual({ command, answer: model });
      expect({ command, jobs: await table(fresh) }).toEqual({ command, jobs: expected(world) });
      count(seen, command, real);
    }
    expect(breachesOf(await readHistory(fresh))).toEqual([]);
  });
  await fc.assert(property, { numRuns: 40, seed, endOnFailure: true });

  // Not one of these may be missing, or the property was true for want of trying.
  for (const what of mustHappen) expect([what, (seen.get(what) ?? 0) > 0]).toEqual([what, true]);
});

/** Thousands of statements: a connection for each would take longer than they do. */
async function freshOnOneConnection(): Promise<Fresh> {
  const fresh = await freshSchema();
  const client = await adminClient(fresh.url);
  onTestFinished(() => client.end());
  return {
    ...fresh,
    async sql<Row extends Record<string, unknown>>(text: string, values: readonly unknown[] = []) {
      return (await client.query<Row>(forSchema(text, fresh.schema), [...values])).rows;
    },
  };
}

const mustHappen = [
  "renew held",
  "renew refused",
  "finish accepted",
  "finish refused",
  "requeue accepted",
  "requeue refused",
  "enqueue met a key",
  "cancel running",
  "cancel waiting",
  "replay main",
  "rescue ready",
  "rescue parked",
  "rescue dead",
  "promote some",
];

function count(seen: Map<string, number>, command: Command, answer: unknown): void {
  const note = (what: string): void => {
    seen.set(what, (seen.get(what) ?? 0) + 1);
  };
  if (command.do === "renew") note((answer as { held: boolean }).held ? "renew held" : "renew refused");
  if (command.do === "finish" || command.do === "requeue")
    note(`${command.do} ${answer === true ? "accepted" : "refused"}`);
  if (command.do === "enqueue" && (answer as { created: boolean }[]).some((row) => !row.created))
    note("enqueue met a key");
  if (command.do === "cancel" || command.do === "replay") note(`${command.do} ${String(answer)}`);
  if (command.do === "rescue") for (const one of answer as { state: string }[]) note(`rescue ${one.state}`);
  if (command.do === "promote" && (answer as { promoted: number }).promoted > 0) note("promote some");
}

async function clear(fresh: Fresh): Promise<void> {
  for (const name of ["job", "history", "dedupe_window", "audit", "change"]) {
    await fresh.sql(`delete from stint.${name}`);
  }
}

type Projection = Record<string, unknown>;

async function table(fresh: Fresh): Promise<Projection[]> {
  return await fresh.sql(
    `select j.id, j.state, j.priority, j.attempts, j.crashes, j.interruptions, j.epoch::integer, j.run, j.lease_id as "leaseId",
       j.worker, j.cancel_requested as "cancelRequested", l.dedupe_key as "dedupeKey", j.park_reason as "parkReason", j.reason,
       array(select e ->> 'outcome' from jsonb_array_elements(j.log) e) as outcomes
     from stint.jobs j left join stint.job l on l.id = j.id
     order by j.id`,
  );
}

function expected(world: World): Projection[] {
  return [...world.model.jobs.values()]
    .map(project)
    .sort((a, b) => (String(a["id"]) < String(b["id"]) ? -1 : 1));
}

function project(job: ModelJob): Projection {
  const { id, state, priority, attempts, crashes, interruptions, epoch, run, leaseId, worker } = job;
  const { cancelRequested, dedupeKey, parkReason, reason } = job;
  const counters = { attempts, crashes, interruptions, epoch, run };
  const outcomes = [...job.outcomes];
  return {
    ...counters,
    id,
    state,
    priority,
    leaseId,
    worker,
    cancelRequested,
    dedupeKey,
    parkReason,
    reason,
    outcomes,
  };
}

test("the history checker finds the fault in a faulty history", () => {
  const base: Change = {
    transaction: "1",
    job: "j",
    was: null,
    becomes: "ready",
    epoch: 0,
    run: 1,
    attempts: 0,
    crashes: 0,
    lease: null,
  };
  const running: Change = {
    ...base,
    transaction: "2",
    was: "ready",
    becomes: "running",
    epoch: 1,
    attempts: 1,
    lease: "l",
  };
  const ended: Change = { ...running, transaction: "3", was: null, becomes: "succeeded" };
  const rules = (...changes: Change[]): string[] =>
    breachesOf(changes).map((breach) => breach.split(" ")[0] ?? "");

  expect(rules(base, running, ended)).toEqual([]);
  expect(rules(base, { ...base, transaction: "2", was: "ready", becomes: "retrying" })).toContain("S0");
  expect(rules(base, { ...running, epoch: 0 })).toContain("S3");
  expect(rules(base, running, { ...running, transaction: "3", was: "running", lease: "other" })).toContain(
    "S4",
  );
  expect(rules(base, { ...running, attempts: 2 })).toContain("S5");
  expect(
    rules(base, running, { ...ended, becomes: "dead" }, { ...base, transaction: "4", epoch: 1 }),
  ).toContain("S6");
});
