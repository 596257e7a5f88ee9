import type { Run, RunOptions } from "../db/db.ts";
import { oneOf, readMany, readOne, text, textOrNull } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { TokenCost } from "../model/dependencies.ts";
import type { Fence } from "../model/job.ts";
import { fenced, fenceValues } from "./fences.ts";

const takeTokens = statement(
  "take-tokens",
  `
  select id, outcome, at::text as at
  from stint.take_tokens($1::uuid[], $2::bigint[], $3::uuid[], $4::integer[], $5::text[], $6::bigint[], $7)`,
);

const readOutcome = oneOf(["taken", "waits", "cancelled", "lost"]);

/**
 * `waits`: the job is parked until its tokens are there. `cancelled`: a cancel was requested; the worker must release it. `lost`: the fence no
 * longer holds.
 */
export type TokensTaken = { readonly outcome: ReturnType<typeof readOutcome>; readonly at: string };

/** A job that was claimed and has not begun, and the tokens that it needs. */
export type TokenRequest = { readonly fence: Fence; readonly costs: readonly TokenCost[] };

/** Whether the jobs hold their places of limits. Default true. */
export type TakeTokensOptions = RunOptions & { readonly placed?: boolean };

/**
 * Take the tokens of jobs: all tokens of a job, or none. Returns the outcome by the id of the job; none if jobs without places need some first. A repeat
 * takes tokens again.
 */
export async function tokensFor(
  db: Run,
  jobs: readonly TokenRequest[],
  { placed = true, ...options }: TakeTokensOptions = {},
): Promise<ReadonlyMap<string, TokensTaken>> {
  const uses = jobs.flatMap(({ costs }, index) => costs.map((use) => ({ ...use, of: index + 1 })));
  const values = [
    ...fenceValues(jobs.map(({ fence }) => fence)),
    uses.map(({ of }) => of),
    uses.map(({ name }) => name),
    uses.map(({ cost }) => cost),
    placed,
  ];
  const rows = await readMany(
    db,
    takeTokens,
    values,
    (row) => [text(row, "id"), { outcome: readOutcome(row, "outcome"), at: text(row, "at") }] as const,
    options,
  );
  return new Map(rows);
}

const takeTogether = statement(
  "take-tokens-together",
  `select stint.take_tokens_together($1::text[], $2::bigint[], $3)::text as at`,
);

/**
 * Take the tokens of all these jobs at once, without a look at each of them. Returns when they were taken; null: not all can have theirs, and none were
 * taken. A repeat takes tokens again.
 */
export async function tokensTogether(
  db: Run,
  jobs: readonly Pick<TokenRequest, "costs">[],
  { placed = true, ...options }: TakeTokensOptions = {},
): Promise<string | null> {
  const sums = new Map<string, number>();
  for (const { costs } of jobs)
    for (const { name, cost } of costs) sums.set(name, (sums.get(name) ?? 0) + cost);
  // Beyond that, a sum of floats is not exact.
  if ([...sums.values()].some((sum) => sum > Number.MAX_SAFE_INTEGER)) return null;
  const values = [[...sums.keys()], [...sums.values()], placed];
  return await readOne(db, takeTogether, values, (row) => textOrNull(row, "at"), options);
}

const addKeys = statement(
  "add-limit-keys",
  `
  with mine as (
    select m.id, m.epoch, m.lease_id, array_agg(m.key order by m.number) as keys
    from unnest((select $1::uuid[]), (select $2::bigint[]), (select $3::uuid[]), (select $4::text[])) with ordinality as m (id, epoch, lease_id, key, number)
    group by m.id, m.epoch, m.lease_id
  )
  update stint.job j
  set limits = coalesce(j.limits, '{}') || array(select k from unnest(m.keys) k where k <> all (coalesce(j.limits, '{}')))
  from mine m
  where ${fenced} and cardinality(coalesce(j.limits, '{}') || m.keys) <= 17`,
);

/** Let running jobs carry further keys of limits. */
export async function addLimitKeys(
  db: Run,
  jobs: readonly { readonly fence: Fence; readonly key: string }[],
): Promise<void> {
  await db.run(addKeys, [...fenceValues(jobs.map(({ fence }) => fence)), jobs.map(({ key }) => key)]);
}
