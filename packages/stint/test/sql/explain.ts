import type { Client } from "pg";
import type { Run } from "#stint/db/db.js";
import { forSchema } from "#stint/db/statement.js";
import { sentBy } from "./statements.ts";

export type PlanNode = {
  "Node Type": string;
  "Parent Relationship"?: string;
  "Relation Name"?: string;
  Alias?: string;
  "Index Name"?: string;
  "Actual Rows"?: number;
  "Actual Loops"?: number;
  "Rows Removed by Filter"?: number;
  "Shared Hit Blocks"?: number;
  "Shared Read Blocks"?: number;
  Plans?: PlanNode[];
};

/** Prepare the statement that a call sends, under the name `plan`. Returns the arguments to execute it with. */
export async function prepare(
  client: Client,
  schema: string,
  call: (db: Run) => Promise<unknown>,
): Promise<string> {
  const [sent] = await sentBy(call);
  if (sent === undefined) throw new Error("the call sent nothing");
  await client.query("deallocate all");
  await client.query(`prepare plan as ${forSchema(sent.statement.text, schema)}`);
  return sent.values.map(literal).join(", ");
}

/** The plan that the prepared statement would run with now, as a flat list of nodes. */
export async function planned(client: Client, values: string, options = "format json"): Promise<PlanNode[]> {
  type Explained = { "QUERY PLAN": { Plan: PlanNode }[] };
  const { rows } = await client.query<Explained>(
    `explain (${options}) execute plan ${values === "" ? "" : `(${values})`}`,
  );
  const root = rows[0]?.["QUERY PLAN"][0]?.Plan;
  return root === undefined ? [] : flatten(root);
}

/** What is wrong with a plan that runs many times a second on the table of live jobs. */
export function faultsOf(nodes: readonly PlanNode[]): string[] {
  const describe = (node: PlanNode): string =>
    [node["Node Type"], node["Relation Name"], node.Alias, node["Index Name"]].filter(Boolean).join(" ");
  return nodes
    .filter(
      (node) =>
        sortsTable(node) ||
        (node["Node Type"] === "Seq Scan" && node["Relation Name"] === "job") ||
        // A bitmap of the one row with an id is harmless; a bitmap of a whole state is not.
        (node["Node Type"] === "Bitmap Index Scan" && node["Index Name"] !== "job_pkey"),
    )
    .map(describe);
}

/** Whether it sorts what comes out of a table. What a statement has taken already may be put in order to be summed up. */
export function sortsTable(node: PlanNode): boolean {
  if (!node["Node Type"].includes("Sort")) return false;
  return !inputsOf(node).every((leaf) => leaf["Node Type"] === "CTE Scan");
}

/** The leaves whose rows come to a node. A part of the statement with a name, and a value of its own, are not among them. */
function inputsOf(node: PlanNode): PlanNode[] {
  const below = (node.Plans ?? []).filter(
    (one) => one["Parent Relationship"] !== "InitPlan" && one["Parent Relationship"] !== "SubPlan",
  );
  return below.length === 0 ? [node] : below.flatMap(inputsOf);
}

export function indexesOf(nodes: readonly PlanNode[]): Set<string> {
  return new Set(nodes.flatMap((node) => node["Index Name"] ?? []));
}

export function flatten(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(flatten)];
}

function literal(value: unknown): string {
  if (value === null) return "null";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (Array.isArray(value)) {
    return quote(`{${value.map((one) => (one === null ? "NULL" : JSON.stringify(one))).join(",")}}`);
  }
  if (typeof value === "string") return quote(value);
  throw new Error(`no literal for ${typeof value}`);
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
