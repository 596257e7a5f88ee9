import type { Client } from "pg";
import { forSchema } from "#stint/db/statement.js";
import type { Fresh } from "./fresh.ts";

/** The fewest blocks that a statement touches, of several calls in one session: the first ones plan it. */
export async function fewestBlocks(client: Client, fresh: Fresh, text: string, calls = 8): Promise<number> {
  let fewest = Number.POSITIVE_INFINITY;
  for (let call = 0; call < calls; call++) {
    const { rows } = await client.query<{ "QUERY PLAN": [{ Plan: Record<string, number> }] }>(
      `explain (analyze, buffers, format json) ${forSchema(text, fresh.schema)}`,
    );
    const plan = rows[0]!["QUERY PLAN"][0].Plan;
    fewest = Math.min(fewest, plan["Shared Hit Blocks"]! + plan["Shared Read Blocks"]!);
  }
  return fewest;
}
