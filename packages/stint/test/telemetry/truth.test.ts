import { isDeepStrictEqual } from "node:util";
import type { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import type { Run } from "#stint/db/db.js";
import { migrate } from "#stint/db/migrate.js";
import { forSchema } from "#stint/db/statement.js";
import type { ClaimedJob } from "#stint/model/job.js";
import { newId } from "#stint/runtime/new-id.js";
import { claim, claimQuarantined } from "#stint/sql/claim.js";
import { enqueue, type EnqueueRow } from "#stint/sql/enqueue.js";
import { cancel, replay, runNow } from "#stint/sql/operate.js";
import { actOnMany } from "#stint/sql/operate-many.js";
import { promote } from "#stint/sql/promote.js";
import { pruneDead, pruneSeries } from "#stint/sql/prune.js";
import { rescue } from "#stint/sql/rescue.js";
import { finish } from "#stint/sql/finish.js";
import { release } from "#stint/sql/release.js";
import { requeue } from "#stint/sql/requeue.js";
import { succeed } from "#stint/sql/succeed.js";
import { fold, recount } from "#stint/sql/tallies.js";
import { adminClient, query, testDatabaseUrl } from "../support/database.ts";
import { freshSchema, openDb, type Fresh } from "../support/fresh.ts";
import { auditInfo } from "../sql/jobs.ts";
import { counted, tallied } from "./depths.ts";
import { inLab } from "../support/lab.ts";

/** The same numbers for the same seed. */
function dice(seed: number): (sides: number) => number {
  let state = seed;
  return (sides) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7f_ff_ff_ff;
    return (state >> 8) % sides;
  };
}

const kinds = ["mail", "thumb", "report"];
const queues = ["a", "b"];
const claimInput = (): Parameters<typeof claim>[1] => ({
  worker: "w",
  leaseId: newId(),
  takes: queues.map((queue) => ({ queue, limit: 4 })),
  kinds,
  kindLeaseMs: {},
  leaseMs: 60_000,
});

/** Whatever can be done to jobs, done at random. Each auditInfo takes what it finds. */
class Actor {
  readonly #fresh: Fresh;
  readonly #roll: (sides: number) => number;
  readonly done = new Map<string, number>();
  #held: ClaimedJob[] = [];

  constructor(fresh: Fresh, seed: number) {
    this.#fresh = fresh;
    this.#roll = dice(seed);
  }

  async act(): Promise<void> {
    const actions = Object.entries(this.#actions);
    const [name, act] = actions[this.#roll(actions.length)]!;
    this.done.set(name, (this.done.get(name) ?? 0) + (await act()));
  }

  #row(): EnqueueRow {
    const row: EnqueueRow = { id: newId(), kind: kinds[this.#roll(3)]!, queue: queues[this.#roll(2)]! };
    if (this.#roll(3) === 0) row.priority = this.#roll(3) - 1;
    if (this.#roll(4) === 0) row.delay_ms = this.#roll(2) * 3_600_000;
    if (this.#roll(6) === 0) row.dedupe_key = `k${this.#roll(5)}`;
    if (this.#roll(12) === 0) row.again = true;
    return row;
  }

  async #enqueue(db: Run, rows: readonly EnqueueRow[]): Promise<void> {
    await enqueue(
      db,
      rows.map((row) => ({ row, payload: "{}", meta: undefined })),
      false,
    );
  }

  async #some(state: string): Promise<string | undefined> {
    const rows = await this.#fresh.sql<{ id: string }>(
      `select id from stint.jobs where state = $1::stint.job_state order by md5(id::text || $2) limit 1`,
      [state, String(this.#roll(1_000))],
    );
    return rows[0]?.id;
  }

  /** In a transaction of its own. */
  async #within(end: "commit" | "rollback", work: (db: Run, client: Client) => Promise<void>): Promise<void> {
    const client = await adminClient(this.#fresh.url);
    await client.query("begin");
    const db: Run = {
      run: async ({ text }, values) =>
        (await client.query(forSchema(text, this.#fresh.schema), [...values])).rows as never,
    };
    await work(db, client);
    await client.query(end);
    await client.end();
  }

  #take(): ClaimedJob[] {
    return this.#held.splice(0, 1 + this.#roll(3));
  }

  readonly #actions: Record<string, () => Promise<number>> = {
    "enqueue one": async () => {
      await this.#enqueue(this.#fresh.db, [this.#row()]);
      return 1;
    },
    "enqueue alike": async () => {
      const rows = Array.from({ length: 1 + this.#roll(4) }, () => ({
        id: newId(),
        kind: "mail",
        queue: "a",
      }));
      // The same ids again, with one new id: known ids are ignored. In one transaction, because otherwise the first ones might have ended
      // in between, and enqueueing ended ids again needs an option.
      await this.#within("commit", async (db) => {
        await this.#enqueue(db, rows);
        await this.#enqueue(db, [...rows, { id: newId(), kind: "mail", queue: "a" }]);
      });
      return 1;
    },
    "enqueue many": async () => {
      const count = this.#roll(2) === 0 ? 5 : 120;
      await this.#enqueue(
        this.#fresh.db,
        Array.from({ length: count }, (_, n) => ({
          id: newId(),
          kind: kinds[n % 3]!,
          queue: queues[n % 2]!,
        })),
      );
      return 1;
    },
    "enqueue all sorts": async () => {
      await this.#enqueue(
        this.#fresh.db,
        Array.from({ length: 8 }, () => this.#row()),
      );
      return 1;
    },
    "roll back": async () => {
      await this.#within(this.#roll(2) === 0 ? "rollback" : "commit", async (db, client) => {
        await client.query("savepoint here");
        await this.#enqueue(db, [this.#row()]);
        if (this.#roll(2) === 0) await client.query("rollback to savepoint here");
        await this.#enqueue(db, [{ id: newId(), kind: "late", queue: "a" }]);
        await fold(this.#fresh.db, 0);
      });
      return 1;
    },
    claim: async () => {
      this.#held.push(...(await claim(this.#fresh.db, claimInput())));
      return this.#held.length;
    },
    "claim a suspect": async () => {
      const jobs = await claimQuarantined(this.#fresh.db, { ...claimInput(), queues, waitedMs: 0 });
      this.#held.push(...jobs);
      return jobs.length;
    },
    succeed: async () => {
      const jobs = this.#take();
      return (
        await succeed(
          this.#fresh.db,
          jobs.map((job) => job.fence),
        )
      ).size;
    },
    die: async () => {
      const ends = this.#take().map(({ fence }) => ({
        fence,
        state: this.#roll(2) === 0 ? ("dead" as const) : ("cancelled" as const),
        result: null,
        reason: "because",
        ending: { outcome: "failed" as const },
      }));
      return (await finish(this.#fresh.db, ends)).size;
    },
    "put back": async () => {
      const back = this.#take().map(({ fence }) => ({
        fence,
        state: (["retrying", "scheduled", "ready"] as const)[this.#roll(3)]!,
        delayMs: [null, 0, 1, 3_600_000][this.#roll(4)]!,
        countsAs: "attempt" as const,
        ending: { outcome: "failed" as const },
      }));
      return (await requeue(this.#fresh.db, back)).size;
    },
    release: async () => {
      const fences = this.#take().map((job) => job.fence);
      return (await release(this.#fresh.db, fences)).filter(({ went }) => went === "back").length;
    },
    "lose and rescue": async () => {
      const lost = this.#take().map((job) => job.fence.job);
      await this.#fresh.sql(
        `update stint.job set lease_until = now() - interval '1 hour' where id = any ($1) and state = 'running'`,
        [lost],
      );
      return (await rescue(this.#fresh.db, { limit: 10, maxCrashes: 1 + this.#roll(3) })).length;
    },
    promote: async () => (await promote(this.#fresh.db, 5)).promoted,
    cancel: async () => {
      const id = await this.#some(["ready", "scheduled", "retrying", "parked", "running"][this.#roll(5)]!);
      return id !== undefined && (await cancel(this.#fresh.db, id, auditInfo())) !== undefined ? 1 : 0;
    },
    "run now": async () => {
      const id = await this.#some(["scheduled", "retrying", "parked"][this.#roll(3)]!);
      return id !== undefined && (await runNow(this.#fresh.db, id, auditInfo())) !== undefined ? 1 : 0;
    },
    replay: async () => {
      const id = await this.#some(["dead", "cancelled"][this.#roll(2)]!);
      return id !== undefined && (await replay(this.#fresh.db, id, auditInfo())) !== undefined ? 1 : 0;
    },
    "act on many": async () => {
      const action = (["cancel", "run-now", "replay"] as const)[this.#roll(3)]!;
      const states = {
        cancel: ["ready", "scheduled", "retrying", "parked", "running"],
        "run-now": ["scheduled", "retrying", "parked"],
        replay: ["dead", "cancelled"],
      } as const;
      const found = await Promise.all(states[action].map(async (state) => await this.#some(state)));
      const ids = found.filter((id) => id !== undefined);
      const acted = await actOnMany(this.#fresh.db, action, {
        ids,
        auditIds: ids.map(() => newId()),
        states: states[action],
        until: "infinity",
        actor: "tester",
        reason: "because",
      });
      return acted.length;
    },
    prune: async () => {
      await pruneSeries(this.#fresh.db, 100);
      return await pruneDead(this.#fresh.db, 0, 1);
    },
    fold: async () => (await fold(this.#fresh.db, 0)) ?? 0,
  };
}

/** What was found wrong, and the actions that never happened: without those the comparison would show nothing. */
async function compare(fresh: Fresh): Promise<{ wrong: string[]; never: string[] }> {
  const seed = Number(process.env["STINT_TEST_SEED"] ?? 7);
  const wrong: string[] = [];
  const check = async (when: string): Promise<void> => {
    const [fromTallies, truth] = [await tallied(fresh), await counted(fresh)];
    if (!isDeepStrictEqual(fromTallies, truth))
      wrong.push(`${when}, seed ${seed}: ${JSON.stringify(fromTallies)} instead of ${JSON.stringify(truth)}`);
  };
  const actors = [1, 2, 3].map((n) => new Actor(fresh, seed * 31 + n));
  for (let round = 1; round <= (inLab ? 8 : 3); round++) {
    await Promise.all(
      actors.map(async (actor) => {
        for (let actions = 0; actions < 50; actions++) await actor.act();
      }),
    );
    await check(`round ${round}, unfolded`);
    await fold(fresh.db, 0);
    await check(`round ${round}, folded`);
  }
  await recount(fresh.db);
  await check("recounted");
  const happened = (name: string): boolean => actors.some(({ done }) => (done.get(name) ?? 0) > 0);
  const never = actors.flatMap(({ done }) => [...done.keys()].filter((name) => !happened(name)));
  return { wrong, never };
}

test("the tallies equal a count, under concurrent random operations and folds", async () => {
  expect(await compare(await freshSchema())).toEqual({ wrong: [], never: [] });
}, 120_000);

test.runIf(inLab)(
  "the tallies equal a count in a schema with an unusual name",
  async () => {
    const schema = "order";
    await query(`drop schema if exists "${schema}" cascade`);
    const db = openDb(testDatabaseUrl(), schema);
    onTestFinished(async () => {
      await db.close();
      await query(`drop schema if exists "${schema}" cascade`);
    });
    await migrate({ connection: testDatabaseUrl(), schema });
    const compared = await compare({
      schema,
      url: testDatabaseUrl(),
      db,
      client: () => {
        throw new Error("not needed here");
      },
      sql: async (text, values = []) => await query(forSchema(text, schema), values),
    });
    expect(compared).toEqual({ wrong: [], never: [] });
  },
  120_000,
);
