import { quoteLiteral } from "../db/quote.ts";
import { forSchema } from "../db/statement.ts";

export type ScaledPool = { readonly queues: readonly string[]; readonly slots: number };

/**
 * How many workers with these pools are needed, as a statement of its own: whoever asks is an autoscaler, which takes no
 * parameters. Answers one number and never null.
 */
export function workersNeededSql(pools: readonly ScaledPool[], targetMs: number, schema: string): string {
  const asked = JSON.stringify(pools.map(({ queues, slots }) => ({ queues, slots })));
  const target = `interval '${Math.max(1, Math.round(targetMs / 1_000))} seconds'`;
  return `${forSchema("select stint.workers_needed", schema)}(${quoteLiteral(asked)}, ${target})`;
}
