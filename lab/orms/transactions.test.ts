import { defineJob, entry, InvalidOptionError, typed, type TransactionLike } from "stint";
import { DataSource } from "typeorm";
import { expect, onTestFinished, test } from "vitest";
import { freshSchema, type Fresh } from "../../packages/stint/test/support/fresh.ts";
import { orms, type OrmClient } from "./clients.ts";

const note = defineJob("note", { payload: typed<{ text: string }>() });
const text = `it's "quoted" $1 ? ?? :name \\ é 😀`;
const refusal = new Error("the business row is refused");

async function setUp(
  open: (url: string) => Promise<OrmClient>,
): Promise<{ fresh: Fresh; client: OrmClient; stint: ReturnType<Fresh["client"]> }> {
  const fresh = await freshSchema();
  const client = await open(fresh.url);
  onTestFinished(() => client.close());
  return { fresh, client, stint: fresh.client({ jobs: [note] }) };
}

async function jobCount(fresh: Fresh): Promise<number> {
  const [row] = await fresh.sql<{ count: string }>("select count(*) from stint.jobs");
  return Number(row?.count);
}

test.each(orms)("with %s a commit makes the job and a rollback leaves nothing", async (_, open) => {
  const { fresh, client, stint } = await setUp(open);
  const dedupe = { key: "one", until: "finished" } as const;
  const ids: string[] = [];
  await client.begin(async (tx) => {
    const first = await stint.in(tx).enqueue(note, { text }, { tags: ["a", "b"], dedupe });
    expect(await stint.get(first.id)).toBeUndefined();
    ids.push(first.id);
  });
  expect(await stint.get(ids[0]!)).toMatchObject({ payload: { text }, tags: ["a", "b"], state: "ready" });

  await client.begin(async (tx) => {
    expect(await stint.in(tx).enqueue(note, { text }, { dedupe })).toMatchObject({
      id: ids[0],
      created: false,
    });
    const many = await stint
      .in(tx)
      .enqueueMany([
        entry(note, { text: "second" }),
        entry(note, { text }, { dedupe }),
        entry(note, { text: "third" }, { delay: "1h" }),
      ]);
    expect(many.map((one) => one.created)).toEqual([true, false, true]);
    await stint.in(tx).enqueueMany([entry(note, { text: "plain" }), entry(note, { text })]);
    await Promise.all([1, 2, 3].map((n) => stint.in(tx).enqueue(note, { text: `${n}` })));
  });
  expect(await jobCount(fresh)).toBe(8);

  const rolledBack = client.begin(async (tx) => {
    await stint.in(tx).enqueue(note, { text: "never" });
    await stint.in(tx).enqueueMany([entry(note, { text: "nor this" }), entry(note, { text: "nor that" })]);
    throw refusal;
  });
  await expect(rolledBack).rejects.toThrow(refusal.message);
  expect(await jobCount(fresh)).toBe(8);
});

test.each(orms)(
  "with %s an enqueue that is not awaited is never written after a rollback",
  async (_, open) => {
    const { fresh, client, stint } = await setUp(open);
    const left: Promise<unknown>[] = [];
    const done = client.begin(async (tx) => {
      left.push(stint.in(tx).enqueue(note, { text: "one" }));
      left.push(stint.in(tx).enqueueMany([entry(note, { text: "two" }), entry(note, { text: "three" })]));
      for (const one of left) one.catch(() => undefined);
      throw refusal;
    });
    await expect(done).rejects.toThrow(refusal.message);
    await Promise.allSettled(left);
    expect(await jobCount(fresh)).toBe(0);
  },
);

test.each(orms)("with %s an enqueue that is not awaited is committed or refused", async (_, open) => {
  const { fresh, client, stint } = await setUp(open);
  const left: Promise<unknown>[] = [];
  await client.begin(async (tx) => {
    left.push(stint.in(tx).enqueue(note, { text: "one" }));
    left[0]!.catch(() => undefined);
  });
  const [settled] = await Promise.allSettled(left);
  expect(await jobCount(fresh)).toBe(settled?.status === "fulfilled" ? 1 : 0);
});

test.each(orms)("with %s a transaction that has ended is refused", async (_, open) => {
  const { fresh, client, stint } = await setUp(open);
  for (const usedBefore of [false, true]) {
    const kept: TransactionLike[] = [];
    await client.begin(async (tx) => {
      kept.push(tx);
      if (usedBefore) await stint.in(tx).enqueue(note, { text: "in time" });
    });
    const late = async (): Promise<unknown> => await stint.in(kept[0]!).enqueue(note, { text: "late" });
    await expect(late()).rejects.toThrow(InvalidOptionError);
    await client.begin(async (tx) => {
      await stint.in(tx).enqueue(note, { text: "another transaction" });
      await expect(late()).rejects.toThrow(InvalidOptionError);
    });
  }
  expect(await jobCount(fresh)).toBe(3);
});

test("the compiler refuses a data source", async () => {
  const stint = (await freshSchema()).client();
  // @ts-expect-error Not a transaction.
  expect(() => stint.in(new DataSource({ type: "postgres" }))).toThrow(/the TypeORM DataSource/);
});

test.each(orms)("with %s anything but a transaction is refused", async (_, open) => {
  const { fresh, client, stint } = await setUp(open);
  for (const [value, message] of client.wrong) {
    expect(() => stint.in(value as TransactionLike)).toThrow(InvalidOptionError);
    expect(() => stint.in(value as TransactionLike)).toThrow(message);
  }
  expect(await jobCount(fresh)).toBe(0);
});
