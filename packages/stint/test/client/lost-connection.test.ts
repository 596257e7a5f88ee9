import { expect, test } from "vitest";
import {
  createStint,
  DatabaseUnavailableError,
  defineJob,
  handle,
  entry,
  silentLogger,
  typed,
  UnknownOutcomeError,
  type Enqueued,
} from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { startCutProxy, type Cut, type CutProxy } from "../support/cut-proxy.ts";
import { slice } from "../support/lab.ts";

const note = defineJob("note", { payload: typed<number>() });
const uuid = /[0-9a-f]{8}-[0-9a-f-]{27}/;

async function viaProxy(fresh: Fresh) {
  const proxy = await startCutProxy(fresh.url);
  const stint = fresh.client({ database: proxy.url });
  // Connected, and its schema checked: what is cut from now on is the enqueue itself.
  await stint.enqueue(note, 0);
  await fresh.sql("delete from stint.job");
  return { proxy, stint };
}

async function stored(fresh: Fresh) {
  return await fresh.sql<{ id: string; payload: number }>(
    "select id, payload from stint.jobs order by payload::int",
  );
}

/** Cut the connection at the next enqueue, and for good. */
function cutForGood(proxy: CutProxy, cut: Cut): void {
  void proxy.cutAt(".enqueue", cut).then(() => proxy.down());
}

test.each<Cut>(["unsent", "unanswered"])(
  "an enqueue that is %s is repeated as the same job, once",
  async (cut) => {
    const fresh = await freshSchema();
    const { proxy, stint } = await viaProxy(fresh);
    const cutDone = proxy.cutAt(".enqueue", cut);
    const result = await stint.enqueue(note, 1);
    await cutDone;

    expect(result).toMatchObject({ kind: "note", status: "created", created: true });
    expect(await stored(fresh)).toEqual([{ id: result.id, payload: 1 }]);
  },
);

test("an enqueue repeated after its job has ended adds no second job", async () => {
  const fresh = await freshSchema();
  const { proxy, stint } = await viaProxy(fresh);
  const direct = fresh.client();
  const ended = proxy.cutAt(".enqueue", "unanswered").then(async () => {
    proxy.down();
    const [job] = (await direct.list()).jobs;
    await direct.cancel(job!.id);
    proxy.up();
    return job!.id;
  });
  const result = await stint.enqueue(note, 1);

  expect(result).toEqual({ id: await ended, kind: "note", status: "created", created: true });
  expect(await stored(fresh)).toHaveLength(1);
  expect((await direct.get(result.id))!.state).toBe("cancelled");
});

test.each(slice<Cut>(["unsent", "unanswered"], (cut) => cut === "unanswered"))(
  "a batch that is %s is repeated as the same jobs",
  async (cut) => {
    const fresh = await freshSchema();
    const { proxy, stint } = await viaProxy(fresh);
    let cutDone = proxy.cutAt(".enqueue", cut);
    const results: Enqueued[] = await Promise.all([1, 2, 3].map((n) => stint.enqueue(note, n)));
    await cutDone;
    cutDone = proxy.cutAt(".enqueue", cut);
    results.push(...(await stint.enqueueMany([4, 5].map((n) => entry(note, n)))));
    await cutDone;
    cutDone = proxy.cutAt(".enqueue", cut);
    results.push(await stint.enqueue(note, 6, { dedupe: { key: "k" } }));
    results.push(await stint.enqueue(note, 7, { dedupe: { key: "t", until: "1h" } }));
    await cutDone;

    expect(results.every((result) => result.created)).toBe(true);
    expect((await stored(fresh)).map((row) => row.id)).toEqual(results.map((result) => result.id));
  },
);

test.each(slice<Cut>(["unsent", "unanswered"], (cut) => cut === "unanswered"))(
  "a commit of many statements that is %s is repeated whole",
  async (cut) => {
    const fresh = await freshSchema();
    const { proxy, stint } = await viaProxy(fresh);
    const cutDone = proxy.cutAt("commit", cut);
    const results = await stint.enqueueMany(Array.from({ length: 2_100 }, (_, n) => entry(note, n)));
    await cutDone;

    expect((await stored(fresh)).map((row) => row.id)).toEqual(results.map((result) => result.id));
  },
);

test.each(slice<Cut>(["unsent", "unanswered"], (cut) => cut === "unanswered"))(
  "with the database gone, an enqueue that was %s is unknown and can be repeated",
  async (cut) => {
    const fresh = await freshSchema();
    const { proxy, stint } = await viaProxy(fresh);
    cutForGood(proxy, cut);
    const errors = await Promise.all(
      [1, 2].map((n) =>
        stint.enqueue(note, n).then(
          () => expect.unreachable(),
          (error: unknown) => error,
        ),
      ),
    );
    const ids = errors.map((error) => {
      expect(error).toBeInstanceOf(UnknownOutcomeError);
      const { jobIds, message } = error as UnknownOutcomeError;
      expect(jobIds).toHaveLength(1);
      expect(message).toContain(jobIds[0]);
      return jobIds[0]!;
    });
    expect(new Set(ids).size).toBe(2);
    expect(await stored(fresh)).toHaveLength(cut === "unsent" ? 0 : 2);

    proxy.up();
    const again = await stint.enqueue(note, 1, { id: ids[0]! });
    expect(again).toEqual({ id: ids[0], kind: "note", status: "created", created: true });
    await stint.enqueueMany([entry(note, 2, { id: ids[1]! })]);
    expect(await stored(fresh)).toEqual(ids.map((id, index) => ({ id, payload: index + 1 })));
  },
);

test("an enqueue repeated with its id is the same job, even a finished one", async () => {
  const fresh = await freshSchema();
  const { proxy, stint } = await viaProxy(fresh);
  cutForGood(proxy, "unanswered");
  const error = await stint.enqueue(note, 1).catch((e: unknown) => e);
  const id = (error as UnknownOutcomeError).jobIds[0]!;

  let runs = 0;
  const direct = fresh.client();
  const worker = direct.worker({
    pools: { default: 1 },
    signals: false,
    handlers: [handle(note, () => void runs++)],
  });
  await worker.start();
  await direct.waitFor(id, { timeout: "60s" });
  proxy.up();
  expect(await stint.enqueue(note, 1, { id })).toEqual({
    id,
    kind: "note",
    status: "created",
    created: true,
  });
  await worker.stop();

  expect(runs).toBe(1);
  expect(await stored(fresh)).toEqual([{ id, payload: 1 }]);
});

test("an enqueue that was never sent throws that it was not sent, with its job id", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  proxy.down();
  const stint = fresh.client({ database: proxy.url });
  const attempts = [
    ...[1, 2].map((n) => stint.enqueue(note, n)),
    stint.enqueue(note, 3, { dedupe: { key: "k" } }),
    stint.enqueueMany([entry(note, 4), entry(note, 5)]),
  ];
  const errors = await Promise.all(
    attempts.map((attempt) =>
      attempt.then(
        () => undefined,
        (error: unknown) => error,
      ),
    ),
  );
  const named = errors.map((error) => {
    expect(error).toBeInstanceOf(DatabaseUnavailableError);
    expect((error as Error).message).toMatch(
      /no connection \(.+\), so job .* was not sent and does not exist/,
    );
    return uuid.exec((error as Error).message)?.[0];
  });
  expect(new Set(named).size).toBe(4);
  expect(named).not.toContain(undefined);
  expect(await stored(fresh)).toEqual([]);

  proxy.up();
  await stint.enqueue(note, 1);
  expect(await stored(fresh)).toHaveLength(1);
});

test("an unreachable database is reported without its password", async () => {
  const stint = createStint({ database: "postgres://me:secret@127.0.0.1:1/x", logger: silentLogger });
  for (const attempt of [() => stint.enqueue(note, 1), () => stint.list(), () => stint.queues()]) {
    const error = await attempt().then(
      () => undefined,
      (e: unknown) => e,
    );
    expect(error).toBeInstanceOf(DatabaseUnavailableError);
    expect((error as Error).message).toContain("ECONNREFUSED");
    expect((error as Error).message).not.toContain("secret");
  }
  await stint.close();
});

test("a read whose reply is lost is repeated", async () => {
  const fresh = await freshSchema();
  const { proxy, stint } = await viaProxy(fresh);
  const { id } = await stint.enqueue(note, 1);
  const questions: [string, () => Promise<unknown>][] = [
    [".get", () => stint.get(id)],
    [".list", () => stint.list()],
    [".queues", () => stint.queues()],
  ];
  for (const [marker, question] of questions) {
    const cutDone = proxy.cutAt(marker, "unanswered");
    expect(await question()).toBeTruthy();
    await cutDone;
  }

  void proxy.cutAt(".get", "unsent").then(() => proxy.down());
  await expect(stint.get(id)).rejects.toThrow(DatabaseUnavailableError);
});

test("the schema check of a first enqueue survives a lost connection", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const cutDone = proxy.cutAt("schema-version", "unanswered");
  await fresh.client({ database: proxy.url }).enqueue(note, 1);
  await cutDone;
  expect(await stored(fresh)).toHaveLength(1);
});

test.each(slice<Cut>(["unsent", "unanswered"], (cut) => cut === "unanswered"))(
  "a cancel that was %s is reported as unknown",
  async (cut) => {
    const fresh = await freshSchema();
    const { proxy, stint } = await viaProxy(fresh);
    const { id } = await stint.enqueue(note, 1);
    void proxy.cutAt(".cancel", cut);
    const error = await stint.cancel(id).catch((e: unknown) => e);

    expect(error).toBeInstanceOf(UnknownOutcomeError);
    expect(error).toMatchObject({ action: "cancel", jobIds: [id] });
    expect((await stint.get(id))!.state).toBe(cut === "unsent" ? "ready" : "cancelled");
  },
);

test("waitFor survives a lost connection", async () => {
  const fresh = await freshSchema();
  const { proxy, stint } = await viaProxy(fresh);
  const { id } = await stint.enqueue(note, 1);
  const cutDone = proxy.cutAt(".finished", "unanswered");
  const waiting = stint.waitFor(id, { timeout: "60s" });
  await cutDone;
  const direct = fresh.client();
  const worker = direct.worker({
    pools: { default: 1 },
    signals: false,
    handlers: [handle(note, () => undefined)],
  });
  await worker.start();
  await waiting;
  await worker.stop();
  expect((await stint.get(id))!.state).toBe("succeeded");
});
