import { readdir, readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import {
  endedColumns,
  enqueuedColumns,
  listedColumns,
  liveColumns,
  viewColumns,
  type JobColumn,
} from "#stint/sql/job-columns.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";

const source = new URL("../../src/sql/", import.meta.url);
const migrations = new URL("../../migrations/", import.meta.url);

async function columnsOf(fresh: Fresh, relation: string): Promise<string[]> {
  const rows = await fresh.sql<{ name: string }>(
    `select attname as name from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped`,
    [`"${fresh.schema}".${relation}`],
  );
  return rows.map(({ name }) => name).sort();
}

async function bodyOf(fresh: Fresh, name: string): Promise<string> {
  const [row] = await fresh.sql<{ body: string }>(
    `select prosrc as body from pg_proc where pronamespace = $1::regnamespace and proname = $2`,
    [`"${fresh.schema}"`, name],
  );
  return row!.body;
}

test.each<[string, readonly JobColumn[]]>([
  ["job", liveColumns],
  ["history", endedColumns],
  ["jobs", viewColumns],
])("the list of columns names exactly those of %s", async (relation, listed) => {
  const fresh = await freshSchema();

  expect([...listed].sort()).toEqual(await columnsOf(fresh, relation));
});

test.each(["enqueue_new", "enqueue_rows", "enqueue_row"])(
  "%s writes every column that an enqueue may set",
  async (name) => {
    const fresh = await freshSchema();
    const body = await bodyOf(fresh, name);
    const inserts = [...body.matchAll(/insert into [^(]*\.job \(([^)]*)\)/g)].map((match) =>
      (match[1] ?? "").split(",").map((column) => column.trim()),
    );
    const longest = inserts.reduce((most, one) => (one.length > most.length ? one : most));

    // Jobs with a dedupe key never go through enqueue_new, parts of flows only through enqueue_row.
    const expected = enqueuedColumns.filter(
      (column) => name !== "enqueue_new" || !column.startsWith("dedupe_"),
    );
    if (name === "enqueue_row") expected.push("park_reason", "has_follow_ups");
    expect([...longest].sort()).toEqual([...expected].sort());
  },
);

test.each(["cancel_waiting", "complete_waiting"])(
  "%s writes every column of a finished job",
  async (name) => {
    const fresh = await freshSchema();
    const body = await bodyOf(fresh, name);
    const [, inserted = ""] = /insert into [^(]*\.history \(([^)]*)\)/.exec(body) ?? [];

    const columns = inserted.split(",").map((column) => column.trim());
    expect(columns.sort()).toEqual([...endedColumns].sort());
  },
);

test("newest_between returns every column that lists show", async () => {
  const fresh = await freshSchema();
  const rows = await fresh.sql<{ name: string }>(
    `select unnest(proargnames[pronargs + 1:]) as name from pg_proc
     where pronamespace = $1::regnamespace and proname = 'newest_between'`,
    [`"${fresh.schema}"`],
  );

  expect(rows.map(({ name }) => name).sort()).toEqual([...listedColumns].sort());
});

test("no statement lists the columns of a job a second time", async () => {
  const names = [...new Set([...liveColumns, ...endedColumns])].join("|");
  const list = new RegExp(`(?:(?:\\w\\.)?\\b(?:${names})\\b,\\s*){8}`);
  const files = (await readdir(source, { recursive: true })).filter(
    (file) => file.endsWith(".ts") && !file.endsWith(".test.ts") && file !== "job-columns.ts",
  );

  const copies: string[] = [];
  for (const file of files) {
    const text = await readFile(new URL(file, source), "utf8");
    if (list.test(text)) copies.push(file);
  }

  expect(copies).toEqual([]);
});

test("migrations list the columns of a job only where they are compared above", async () => {
  const names = [...new Set([...liveColumns, ...endedColumns])].join("|");
  const list = new RegExp(`(?:(?:\\w\\.)?\\b(?:${names})\\b,\\s*){8}`, "g");
  const found: string[] = [];
  for (const file of (await readdir(migrations)).sort()) {
    const text = await readFile(new URL(file, migrations), "utf8");
    for (const match of text.matchAll(list)) {
      const before = text.slice(0, match.index);
      found.push(
        /create (?:function|view|table) stint\.(\w+)(?![\s\S]*create (?:function|view|table) )/.exec(
          before,
        )![1]!,
      );
    }
  }

  expect([...new Set(found)].sort()).toEqual([
    "cancel_waiting",
    "complete_waiting",
    "enqueue_new",
    "enqueue_row",
    "enqueue_rows",
    "jobs",
    "newest_between",
  ]);
});
