import { forSchema } from "#stint/db/statement.js";
import type { Fence } from "#stint/model/job.js";
import type { FromState, JobState } from "#stint/model/state.js";
import { query } from "../support/database.ts";
import type { Fresh } from "../support/fresh.ts";

/** A job, and the fence that a statement is given for it. */
export type Subject = { id: string; fence: Fence };

/** What a statement may change. */
const tables = [
  "job",
  "history",
  "audit",
  "step",
  "signal",
  "latest",
  "flow",
  "flow_job",
  "flow_edge",
  "limit",
  "limit_place",
  "limit_missed",
  "dependency",
  "dependency_wait",
  "kind_dependency",
  "limit_share",
  "paused_job",
  "pause",
];

/** A statement has its name in its first comment; its variants are the same move. */
export async function recordMoves(fresh: Fresh): Promise<void> {
  // Functions and prepared statements: to plan these for each of two thousand cases would take half of the test's time.
  await fresh.sql(
    `create function stint.empty_tables() returns void language plpgsql as $$
     begin ${tables.map((table) => `delete from stint.${table};`).join("\n")} end $$`,
  );
  await fresh.sql(`create table stint.moved (job uuid, statement text)`);
  await fresh.sql(
    `create function stint.record_move() returns trigger language plpgsql as $$
     begin
       insert into stint.moved (job, statement)
       values ((coalesce(new, old)).id, substring(current_query() from '/[*] stint:([a-z-]+)'));
       return null;
     end $$`,
  );
  await fresh.sql(
    `create function stint.record_change() returns trigger language plpgsql as $$
     begin
       insert into stint.moved default values;
       return null;
     end $$`,
  );
  for (const table of tables) {
    await fresh.sql(
      `create trigger recorder after insert or update or delete on stint.${table}
       for each row execute function stint.record_${["job", "history"].includes(table) ? "move" : "change"}()`,
    );
  }
}

const variants = /-(new|inside|traced|lent|followed|onward|pools)$|-many(?=$|-)/g;

export type Standing = { id: string; state: JobState; park: string | null };

export async function standings(fresh: Fresh): Promise<Map<string, Standing>> {
  const rows = await prepared<Standing>(
    fresh,
    "standings",
    `select id, state, park_reason as park from stint.jobs`,
  );
  return new Map(rows.map((row) => [row.id, row]));
}

export async function prepared<Row extends Record<string, unknown>>(
  { schema, url }: Fresh,
  name: string,
  text: string,
): Promise<Row[]> {
  return await query<Row>(forSchema(text, schema), [], url, `${name} ${schema}`);
}

/** What one statement did to jobs that stood as in `before`. Jobs other than its subject are moved by follow-ups. */
export async function movesIn(
  fresh: Fresh,
  { id, fence }: Subject,
  before: Map<string, Standing>,
): Promise<{ moves: string[]; changed: boolean }> {
  const rows = await prepared<{ job: string | null; statement: string }>(
    fresh,
    "moved",
    `select job, min(statement) as statement from stint.moved group by job`,
  );
  if (rows.length === 0) return { moves: [], changed: false };
  const after = await standings(fresh);
  const moves = rows.flatMap(({ job, statement }) => {
    if (job === null) return [];
    const [was, is] = [before.get(job), after.get(job)];
    const from: FromState = was?.state ?? "absent";
    const to = is?.state ?? null;
    if (from === to) return [];
    const move = statement.replaceAll(variants, "");
    const own =
      [id, fence.job].includes(job) ||
      ["enqueue", "claim", "take-places", "take-tokens", "tend-dependencies"].includes(move);
    const park = parks(from, to) ? (is?.park ?? was?.park ?? null) : null;
    if (isLifted(from, to, park)) return show(from, to, "latest", park);
    return show(from, to, own ? move : "follow-ups", park);
  });
  return { moves, changed: true };
}

/** Every statement that ends a job lifts the one behind it, by the same function. */
const isLifted = (from: FromState | null, to: string | null, reason: string | null): boolean =>
  from === "parked" && to !== "cancelled" && to !== "succeeded" && reason === "latest";

export const parks = (from: FromState | null, to: string | null): boolean =>
  from === "parked" || to === "parked";

export const show = (from: FromState, to: string | null, move: string, park: string | null): string =>
  `${from} → ${to}: ${move}${park === null ? "" : ` (${park})`}`;
