/**
 * The columns of a job: the one list from which the statements of sql/ take theirs. test/sql/job-columns.test.ts compares it with the
 * tables, the view and the functions of the migrations, and names the column that is missing in one of them.
 */

type Column = {
  /** Only `stint.job` has it, or only `stint.history`. */
  readonly only?: "live" | "ended";
  /** An enqueue may set it. */
  readonly enqueued?: true;
  /**
   * A claim returns it. A text is the value that most jobs have, in SQL: where all such columns have it, the claim returns one null
   * in place of all of them, and `toClaimedJob` puts the values back. Reading the rows is a third of what a claim costs its worker.
   */
  readonly claimed?: true | string;
  /** Not in the view `stint.jobs`: it matters to statements only. */
  readonly hidden?: true;
  /** Lists show it. Payload and result are not listed: both may be megabytes, stored apart from the row. */
  readonly listed?: true;
};

const enqueued = true;
const claimed = true;
const listed = true;
const hidden = true;

const columns = {
  id: { enqueued, claimed, listed },
  kind: { enqueued, claimed, listed },
  queue: { enqueued, claimed, listed },
  state: { enqueued, listed },
  priority: { enqueued, claimed: "0", listed },
  run_at: { enqueued, claimed, listed },
  created_at: { enqueued, claimed: "run_at", listed },
  finished_at: { only: "ended", listed },
  attempts: { claimed: "1", listed },
  crashes: { claimed: "0", listed },
  interruptions: {},
  faults: { claimed: "0" },
  epoch: { claimed: "1" },
  run: { claimed: "1", listed },
  lease_id: {},
  lease_until: { only: "live" },
  worker: { listed },
  claimed_at: { listed },
  cancel_requested: { only: "live" },
  max_attempts: { enqueued, claimed: "null", listed },
  max_crashes: { enqueued, claimed: "null" },
  timeout_ms: { enqueued, claimed: "null" },
  lease_ms: { enqueued, claimed: "null" },
  expires_at: { enqueued, claimed: "null" },
  key: { enqueued, claimed: "null", listed },
  tenant: { enqueued, claimed: "null", listed },
  tags: { enqueued, claimed: "null", listed },
  dedupe_key: { only: "live", enqueued, hidden },
  dedupe_until: { only: "live", enqueued, hidden },
  park_reason: { only: "live", listed },
  park_until: { only: "live" },
  reason: { listed },
  meta: { enqueued, claimed: "null" },
  payload: { enqueued, claimed },
  result: { only: "ended" },
  log: { listed },
  has_follow_ups: { only: "live", hidden },
  limits: { enqueued, claimed: "null", hidden },
  fair_tenant: { only: "live", enqueued, hidden },
} as const satisfies Record<string, Column>;

export type JobColumn = keyof typeof columns;

const all = Object.entries<Column>(columns) as [JobColumn, Column][];
const where = (is: (column: Column) => boolean): JobColumn[] =>
  all.filter(([, column]) => is(column)).map(([name]) => name);

/** `stint.job`. */
export const liveColumns = where(({ only }) => only !== "ended");
/** `stint.history`. */
export const endedColumns = where(({ only }) => only !== "live");
/** What a job keeps for its whole life. */
export const lastingColumns = where(({ only }) => only === undefined);
export const enqueuedColumns = where((column) => column.enqueued === true);
export const listedColumns = where((column) => column.listed === true);
/** The view `stint.jobs`. */
export const viewColumns = where((column) => column.hidden !== true);

type Rare = { readonly name: JobColumn; readonly usual: string };
const rare = all.flatMap(([name, { claimed: usual }]) => (typeof usual === "string" ? { name, usual } : []));
const areUsual = (them: readonly Rare[]): string =>
  them.map(({ name, usual }) => (usual === "null" ? `${name} is null` : `${name} = ${usual}`)).join(" and ");
// As text, a time keeps the format of the other times of a claim.
const pair = ({ name, usual }: Rare): string => `'${name}', ${usual === "run_at" ? `${name}::text` : name}`;
const toJson = (them: readonly Rare[]): string => `json_build_object(${them.map(pair).join(", ")})::text`;
const limits = rare.filter(({ name }) => name === "limits");
const others = rare.filter(({ name }) => name !== "limits");

/**
 * What a claim returns: columns, and `rare`, a JSON object of the others where one of them does not have its usual value. Of a job that differs from
 * most jobs by its limits only, it has nothing else: the whole object costs as much as the rest of the row.
 */
export const claimedColumns = [
  ...where((column) => column.claimed === true),
  `case when ${areUsual(rare)} then null when ${areUsual(others)} then ${toJson(limits)} else ${toJson(rare)} end as rare`,
].join(", ");

/** SQL expressions for columns that a statement sets. */
export type Values = Readonly<Partial<Record<JobColumn, string>>>;

/** These columns of `row`, with an expression in place of those that have one in `set`. */
export function select(row: string, names: readonly JobColumn[], set: Values = {}): string {
  return names
    .map((name) => {
      const value = set[name];
      return value === undefined ? `${row}.${name}` : `${value} as ${name}`;
    })
    .join(", ");
}
