import type { Fresh } from "./fresh.ts";

/** Write down every change of a bucket, by the database's clock. Call it before the first job starts. */
export async function recordTokens(fresh: Fresh): Promise<void> {
  await fresh.sql(
    `create table stint.token_history (seq bigint generated always as identity, name text, at timestamptz, window_start timestamptz, used bigint)`,
  );
  await fresh.sql(
    `create function stint.note_tokens() returns trigger language plpgsql as $$
     begin
       insert into stint.token_history (name, at, window_start, used)
       values (new.name, new.credit_at, new.quota_from,
         new.quota_used - case when new.quota_from = old.quota_from then old.quota_used else 0 end);
       return null;
     end $$`,
  );
  await fresh.sql(
    `create trigger note_tokens after update on stint.dependency for each row
     when (new.quota_used <> old.quota_used or new.quota_from <> old.quota_from) execute function stint.note_tokens()`,
  );
}

export type TokenUse = {
  readonly name: string;
  readonly atUs: number;
  readonly window: string;
  readonly used: number;
};

/** Every taking of tokens, oldest first. The dependency needs a quota, which counts them. */
export async function tokenHistory(fresh: Fresh): Promise<TokenUse[]> {
  return await fresh.sql<TokenUse>(
    `select name, (extract(epoch from at) * 1000000)::float8 as "atUs", window_start::text as "window", used::integer as used
     from stint.token_history order by seq`,
  );
}

/** The most tokens that any stretch of time took beyond burst + limit * time / per. Not above 0 if the bucket was kept. */
export function overshoot(
  uses: readonly TokenUse[],
  { limit, perMs, burst }: { limit: number; perMs: number; burst: number },
): number {
  // The level of the emptiest bucket that explains the history: it leaks `limit` each `per`, and must never hold more than `burst`.
  let level = 0;
  let last = uses[0]?.atUs ?? 0;
  let worst = Number.NEGATIVE_INFINITY;
  for (const { atUs, used } of uses) {
    level = Math.max(0, level - ((atUs - last) * limit) / (perMs * 1000)) + used;
    last = atUs;
    worst = Math.max(worst, level - burst);
  }
  return worst;
}
