import type { Row, Run } from "../db/db.ts";
import { toTimestamp } from "../db/server-clock.ts";
import { columns, oneOf, readOne, textOrNull } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import { isInside, type InsideStatement } from "./inside.ts";
import type { AuditInfo } from "./transitions.ts";

/** What becomes of a waiting job. Fields left out stay as they are. `payload` is JSON text. */
export type Change = {
  readonly payload?: string;
  readonly run_at?: string;
  readonly delay_ms?: number;
  readonly priority?: number;
  /** The limit keys of the payload, and its ordered key. */
  readonly limits?: readonly string[];
  readonly order?: string;
};

// Names of one word: a client may turn `park_reason` into `parkReason`.

/** `refused`: the job runs, has ended, or is parked in a way that forbids the change. */
export type Changed = {
  status: "changed" | "absent" | "refused";
  state: string | null;
  park: string | null;
};

const change = `stint.change_waiting($1::uuid, $2::text::jsonb, $3::uuid, $4::text, $5::text, $6::timestamptz)`;
const changeJob = statement("change", `select status, state, park_reason as park from ${change}`);
const changeInside = statement(
  "change-inside",
  `
  select c.status, c.state, c.park_reason as park
  from (select ${isInside("$7")} as inside) here
  cross join lateral (select status, state, park_reason from ${change} where here.inside) c`,
);

const toChanged = columns<Changed>({
  status: oneOf(["changed", "absent", "refused"]),
  state: textOrNull,
  park: textOrNull,
});

const valuesOf = (id: string, wanted: Change, { auditId, actor, reason, until }: AuditInfo): unknown[] => [
  id,
  toJson(wanted),
  auditId,
  actor,
  reason,
  until === undefined ? null : toTimestamp(until),
];

function toJson({ payload, ...fields }: Change): string {
  const rest = JSON.stringify(fields);
  if (payload === undefined) return rest;
  return `${rest.slice(0, -1)}${rest === "{}" ? "" : ","}"payload":${payload}}`;
}

/** Change the payload, the run time or the priority of a waiting job. */
export async function changeWaiting(db: Run, id: string, wanted: Change, audit: AuditInfo): Promise<Changed> {
  return await readOne(db, changeJob, valuesOf(id, wanted, audit), toChanged);
}

/** The same within the transaction `xid`. */
export function changeStatementInside(
  id: string,
  wanted: Change,
  audit: AuditInfo,
  xid: string | undefined,
): InsideStatement<Changed> {
  return {
    statement: changeInside,
    values: [...valuesOf(id, wanted, audit), xid ?? null],
    read: ([row]: readonly Row[]) => (row === undefined ? undefined : toChanged(row)),
  };
}
