import { expect, test } from "vitest";
import { rollUpSeries } from "#stint/sql/series.js";
import { freshSchema } from "../support/fresh.ts";

test("a new column of the series is recorded and rolled up without other SQL", async () => {
  const fresh = await freshSchema();
  await fresh.sql(`alter table stint.series add column sneezed bigint not null default 0`);
  const row = { queue: "a", kind: "mail" };
  await fresh.sql(`select stint.record_series($1::text::jsonb)`, [JSON.stringify([{ ...row, sneezed: 2 }])]);
  await fresh.sql(`update stint.series set at = stint.step_of(now(), 10) - interval '3 hours'`);
  await fresh.sql(`select stint.record_series($1::text::jsonb)`, [
    JSON.stringify([
      { ...row, sneezed: 3 },
      { queue: "b", kind: "mail", claimed: 1 },
    ]),
  ]);
  await fresh.sql(`select stint.record_series($1::text::jsonb)`, [JSON.stringify([{ ...row, sneezed: 4 }])]);
  await rollUpSeries(fresh.db);

  expect(
    await fresh.sql(
      `select step, sum(sneezed)::integer as sneezed from stint.series group by step order by step`,
    ),
  ).toEqual([
    { step: 10, sneezed: 9 },
    { step: 60, sneezed: 2 },
    { step: 600, sneezed: 2 },
    { step: 3_600, sneezed: 2 },
  ]);
});
