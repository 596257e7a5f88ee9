import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { columnOf, rollUpSeries, seriesCounters } from "#stint/sql/series.js";
import { freshSchema } from "../support/fresh.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** The files of this package in which a name stands as a whole word, its tests left out. */
function filesWith(...names: string[]): string[] {
  const word = new RegExp(String.raw`\b(?:${names.join("|")})\b`);
  return ["migrations", "src"].flatMap((folder) =>
    readdirSync(`${root}/${folder}`, { recursive: true, encoding: "utf8" })
      .filter((file) => /(?<!\.test)\.(?:ts|sql)$/.test(file))
      .map((file) => `${folder}/${file}`)
      .filter((file) => word.test(readFileSync(`${root}/${file}`, "utf8"))),
  );
}

test("the counters of the table and the sum columns of the series are the same", async () => {
  const fresh = await freshSchema();
  const [sums] = await fresh.sql<{ columns: string }>(`select stint.series_sums('%s') as columns`);

  expect(sums?.columns.split(", ").sort()).toEqual(
    [...seriesCounters.map(columnOf), "wait_ms", "run_ms"].sort(),
  );
});

/** They show counters by name, as they like. */
const readers = new Set([
  "src/inspect/figures.ts",
  "src/inspect/kinds.ts",
  "src/telemetry/grafana.ts",
  "src/telemetry/process-metrics.ts",
]);

// Names that the code outside the worker uses for nothing else.
test.each(["timedOut", "attemptsOfSucceeded"])(
  "%s is named in the table, one migration and where it is counted",
  (counter) => {
    const files = filesWith(counter, columnOf(counter)).filter((file) => !readers.has(file));
    const counting = files.filter((file) => file.startsWith("src/worker/"));

    expect(files).toEqual(["migrations/0010_series.sql", "src/model/counters.ts", ...counting]);
    expect(counting).not.toEqual([]);
  },
);

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
