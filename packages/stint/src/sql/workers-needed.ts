import { quoteLiteral } from "../db/quote.ts";
import { forSchema } from "../db/statement.ts";

export type ScaledPool = { readonly queues: readonly string[]; readonly slots: number };

/**
 * A statement that returns how many workers with these pools are needed, as one number that is never null. It takes no parameters, because
 * autoscalers pass none. Without `targetMs` the target age of each queue is used.
 */
export function workersNeededSql(
  pools: readonly ScaledPool[],
  targetMs: number | undefined,
  schema: string,
): string {
  const asked = JSON.stringify(pools.map(({ queues, slots }) => ({ queues, slots })));
  const target =
    targetMs === undefined ? "" : `, interval '${Math.max(1, Math.round(targetMs / 1_000))} seconds'`;
  return `${forSchema("select stint.workers_needed", schema)}(${quoteLiteral(asked)}${target})`;
}
