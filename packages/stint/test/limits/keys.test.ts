import { expect, test } from "vitest";
import { limitKeys } from "#stint/sql/limits.js";
import { freshSchema } from "../support/fresh.ts";

test("keys are searched by text, and counted from a bounded number of places", async () => {
  const fresh = await freshSchema();
  await fresh.sql(
    `insert into stint.limit_place (job_id, key, holds, run_at)
     select gen_random_uuid(), 'key:account=' || account, false, now() from unnest($1::text[]) as account`,
    [["Acme", "Acme", "Acme", "other", "100%"]],
  );
  const all = await limitKeys(fresh.db, { limit: 2 });
  expect(all.keys.map(({ key, waiting }) => [key, waiting])).toEqual([
    ["key:account=Acme", 3],
    ["key:account=100%", 1],
  ]);
  expect(all.places).toBe(5);
  const keysOf = async (search: string) =>
    (await limitKeys(fresh.db, { search, limit: 10 })).keys.map(({ key }) => key);
  expect(await keysOf("=ACME")).toEqual(["key:account=Acme"]);
  expect(await keysOf("%")).toEqual(["key:account=100%"]);
  expect(await keysOf("nothing")).toEqual([]);
  const few = await limitKeys(fresh.db, { limit: 10, mostPlaces: 2 });
  expect([few.places, few.keys.reduce((sum, { waiting }) => sum + waiting, 0)]).toEqual([2, 2]);
});
