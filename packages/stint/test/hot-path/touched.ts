import type { Client } from "pg";
import type { Run } from "#stint/db/db.js";
import { planned, prepare } from "../sql/explain.ts";

export type Touched = {
  /** Pages it had in hand, for reading and writing. */
  pages: number;
  /** Rows that came out of an index. */
  rows: number;
  /** Rows that were read and not used. */
  removed: number;
};

/** What running the statement of this call touches; undone afterwards. */
export async function touched(
  client: Client,
  schema: string,
  call: (db: Run) => Promise<unknown>,
): Promise<Touched> {
  await client.query("set plan_cache_mode = force_generic_plan");
  const values = await prepare(client, schema, call);
  await client.query("begin");
  const nodes = await planned(client, values, "analyze, buffers, timing off, format json");
  await client.query("rollback");
  const scans = nodes.filter((node) => node["Index Name"] !== undefined);
  return {
    pages: (nodes[0]?.["Shared Hit Blocks"] ?? 0) + (nodes[0]?.["Shared Read Blocks"] ?? 0),
    rows: scans.reduce((sum, node) => sum + (node["Actual Rows"] ?? 0) * (node["Actual Loops"] ?? 0), 0),
    removed: nodes.reduce((sum, node) => sum + (node["Rows Removed by Filter"] ?? 0), 0),
  };
}
