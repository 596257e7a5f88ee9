import { describe, expect, test } from "vitest";
import {
  defineJob,
  handle,
  LeaseLostError,
  snooze,
  steps,
  typed,
  type HandlerContext,
  type HandlerFunction,
  type Tx,
} from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { noteTable } from "../support/note-table.ts";
import { steal } from "../support/steal.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

const work = defineJob("work", { payload: typed<object>(), result: typed<unknown>(), backoff: steps(0) });
const atomic = defineJob("atomic", {
  payload: typed<object>(),
  result: typed<unknown>(),
  backoff: steps(0),
  atomic: true,
});

async function withNotes(): Promise<{
  fresh: Fresh;
  note: (tx: Tx, job: string) => Promise<void>;
  notes: () => Promise<string[]>;
}> {
  const fresh = await freshSchema();
  const table = await noteTable(fresh, "job uuid");
  return {
    fresh,
    note: async (tx, job) => void (await tx.query(`insert into ${table} values ($1)`, [job])),
    notes: async () => (await fresh.sql<{ job: string }>(`select job from ${table}`)).map(({ job }) => job),
  };
}

describe("complete", () => {
  test("commits the handler's own writes and the job's success together", async () => {
    const { fresh, note, notes } = await withNotes();
    const stint = fresh.client();
    const { seen } = await startWorker(stint, {
      handlers: [
        handle(work, async ({ id, complete }) => {
          await complete(async (tx) => {
            await note(tx, id);
            return "done";
          });
          // Recorded already, so this is only logged.
          throw new Error("after the end");
        }),
      ],
    });
    const job = await stint.enqueue(work, {});

    expect(await stint.waitFor(job, { timeout: "60s" })).toBe("done");
    expect(await seen("settled")).toMatchObject({ id: job.id, outcome: "succeeded" });
    expect(await notes()).toEqual([job.id]);
    expect(await stint.get(job.id)).toMatchObject({ state: "succeeded", attempts: 1, epoch: 1 });
  });

  test("refuses writes through its transaction once it has ended", async () => {
    const { fresh, note, notes } = await withNotes();
    const stint = fresh.client();
    let kept: Tx | undefined;
    const { seen } = await startWorker(stint, {
      handlers: [
        handle(
          work,
          async ({ complete }) => {
            await complete((tx) => {
              kept = tx;
              throw new Error("no");
            });
          },
          { attempts: 1 },
        ),
      ],
    });
    const { id } = await stint.enqueue(work, {});
    await seen("settled");

    await expect(note(kept!, id)).rejects.toThrow("after its transaction had ended");
    expect(await notes()).toEqual([]);
  });

  test("writes nothing when its work throws, and the job is retried", async () => {
    const { fresh, note, notes } = await withNotes();
    const stint = fresh.client();
    await startWorker(stint, {
      handlers: [
        handle(work, async ({ id, attempt, complete }) => {
          await complete(async (tx) => {
            await note(tx, id);
            if (attempt === 1) throw new Error("broken");
            return "done";
          });
        }),
      ],
    });
    const job = await stint.enqueue(work, {});

    expect(await stint.waitFor(job, { timeout: "60s" })).toBe("done");
    expect(await notes()).toEqual([job.id]);
    expect(await stint.get(job.id)).toMatchObject({
      attempts: 2,
      log: [{ outcome: "failed" }, { outcome: "succeeded" }],
    });
  });

  test("of a rescued job rolls the handler's writes back and throws", async () => {
    const { fresh, note, notes } = await withNotes();
    const stint = fresh.client();
    const running = gate();
    const end = gate();
    const refused = gate<unknown>();
    const { seen } = await startWorker(stint, {
      pools: { default: 1 },
      handlers: [
        handle(work, async ({ id, complete }) => {
          running.open();
          await end.opened;
          try {
            await complete(async (tx) => await note(tx, id));
          } catch (error) {
            refused.open(error);
            throw error;
          }
        }),
      ],
    });
    const { id } = await stint.enqueue(work, {});
    await running.opened;
    await steal(fresh, id);
    end.open();

    expect(await refused.opened).toBeInstanceOf(LeaseLostError);
    expect(await seen("leaseLost")).toMatchObject({ id, epoch: 1 });
    expect(await notes()).toEqual([]);
    expect(await stint.get(id)).toMatchObject({ state: "running", worker: "thief" });
  });

  test("whose connection is terminated before the commit writes and spends nothing", async () => {
    const { fresh, note, notes } = await withNotes();
    const stint = fresh.client();
    await startWorker(stint, {
      handlers: [
        handle(work, async ({ id, fence, complete }) => {
          await complete(async (tx) => {
            await note(tx, id);
            const [own] = (await tx.query("select pg_backend_pid() as pid")).rows;
            if (fence.epoch === 1) await fresh.sql("select pg_terminate_backend($1)", [own?.["pid"]]);
            return "done";
          });
        }),
      ],
    });
    const job = await stint.enqueue(work, {});

    expect(await stint.waitFor(job, { timeout: "60s" })).toBe("done");
    expect(await notes()).toEqual([job.id]);
    expect(await stint.get(job.id)).toMatchObject({ attempts: 1, faults: 1, crashes: 0 });
  });
});

describe("complete that is not awaited", () => {
  /** One job of this handler, from its enqueue to its record. */
  async function run(
    make: (note: (tx: Tx, job: string) => Promise<void>) => HandlerFunction<object, unknown>,
  ) {
    const { fresh, note, notes } = await withNotes();
    const stint = fresh.client();
    const { seen, all } = await startWorker(stint, { handlers: [handle(work, make(note), { attempts: 1 })] });
    const { id } = await stint.enqueue(work, {});
    await Promise.race([seen("settled"), seen("leaseLost")]);
    return { id, job: (await stint.get(id))!, notes: await notes(), lost: all("leaseLost") };
  }

  test("is waited for: its writes exist when the job has succeeded", async () => {
    const { id, job, notes, lost } = await run((note) => ({ id: own, complete }) => {
      void complete(async (tx) => {
        await new Promise((resolve) => setImmediate(resolve));
        await note(tx, own);
        return "done";
      });
    });
    expect(job).toMatchObject({ state: "succeeded", result: "done", epoch: 1 });
    expect(notes).toEqual([id]);
    expect(lost).toEqual([]);
  });

  test("is waited for even when the handler throws meanwhile", async () => {
    const { id, job, notes } = await run((note) => async ({ id: own, complete }) => {
      await Promise.all([complete(async (tx) => await note(tx, own)), Promise.reject(new Error("beside"))]);
    });
    expect(job).toMatchObject({ state: "succeeded" });
    expect(notes).toEqual([id]);
  });

  test("fails the attempt when it fails, without an unhandled rejection", async () => {
    const { job, notes } = await run((note) => async ({ id: own, complete }) => {
      const begun = gate<Tx>();
      void complete(async (tx) => {
        begun.open(tx);
        await note(tx, own);
        throw new Error("broken");
      });
      const tx = await begun.opened;
      const isOver = async (): Promise<boolean> =>
        await tx.query("select 1").then(
          () => false,
          () => true,
        );
      await until(isOver, { message: "it has failed before the handler returns" });
    });
    expect(job).toMatchObject({ state: "dead", log: [{ error: { message: "broken" } }] });
    expect(notes).toEqual([]);
  });

  test("may run once at a time, and not after the handler has ended", async () => {
    const refusals: unknown[] = [];
    const late = gate<HandlerContext["complete"]>();
    const { job, notes } = await run((note) => async ({ id: own, complete }) => {
      late.open(complete);
      const first = complete(async (tx) => await note(tx, own));
      await complete(() => undefined).catch((error: unknown) => refusals.push(error));
      return await first;
    });
    await (await late.opened)(() => undefined).catch((error: unknown) => refusals.push(error));

    expect(job).toMatchObject({ state: "succeeded" });
    expect(notes).toHaveLength(1);
    expect(refusals.map(String)).toEqual([
      expect.stringContaining("was already called"),
      expect.stringContaining("was already called"),
    ]);
  });

  test("an unawaited statement of an atomic kind that fails fails the attempt", async () => {
    const stint = (await freshSchema()).client();
    const { seen } = await startWorker(stint, {
      handlers: [handle(atomic, ({ tx }) => void tx.query("select 1 / 0"), { attempts: 1 })],
    });
    const { id } = await stint.enqueue(atomic, {});
    await seen("settled");

    expect(await stint.get(id)).toMatchObject({
      state: "dead",
      log: [{ error: { message: "division by zero" } }],
    });
  });
});

describe("an atomic kind", () => {
  test("commits only when its handler returns", async () => {
    const { fresh, note, notes } = await withNotes();
    const stint = fresh.client();
    await startWorker(stint, {
      handlers: [
        handle(atomic, async ({ id, attempt, run, tx, fence }) => {
          await note(tx, id);
          if (attempt === 1 && fence.epoch === 1) return snooze(1);
          if (attempt === 1) throw new Error("broken");
          return `run ${run}`;
        }),
      ],
    });
    const job = await stint.enqueue(atomic, {});

    expect(await stint.waitFor(job, { timeout: "60s" })).toBe("run 1");
    expect(await notes()).toEqual([job.id]);
    const { attempts, interruptions, log } = (await stint.get(job.id))!;
    expect({ attempts, interruptions }).toEqual({ attempts: 2, interruptions: 1 });
    expect(log.map(({ outcome }) => outcome)).toEqual(["snoozed", "failed", "succeeded"]);
  });

  test("counts its attempt before the handler runs, where a crash cannot roll it back", async () => {
    const { fresh } = await withNotes();
    const stint = fresh.client();
    const seenInside = gate<unknown>();
    await startWorker(stint, {
      handlers: [
        handle(atomic, async ({ id }) => {
          seenInside.open(await fresh.sql("select state, attempts from stint.job where id = $1", [id]));
        }),
      ],
    });
    await stint.enqueue(atomic, {});

    expect(await seenInside.opened).toEqual([{ state: "running", attempts: 1 }]);
  });

  test("refuses complete(), and other kinds have no tx", async () => {
    const { fresh } = await withNotes();
    const stint = fresh.client();
    const { seen } = await startWorker(stint, {
      handlers: [
        handle(atomic, async ({ complete }) => (await complete(() => undefined)) as never, { attempts: 1 }),
        handle(work, ({ tx }) => void tx, { attempts: 1 }),
      ],
    });
    const one = await stint.enqueue(atomic, {});
    const two = await stint.enqueue(work, {});
    await seen("settled", ({ id }) => id === one.id);
    await seen("settled", ({ id }) => id === two.id);

    expect((await stint.get(one.id))?.reason).toContain("is not needed by an atomic kind");
    expect((await stint.get(two.id))?.reason).toContain("is only there for a kind defined with atomic: true");
  });
});
