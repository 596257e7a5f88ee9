import { InvalidOptionError } from "../errors.ts";
import { describe } from "../model/describe.ts";
import { inFlowOrder } from "../model/flow-graph.ts";
import { checkName } from "../model/names.ts";
import { refuseUnknownKeys, requireBoolean } from "../model/options.ts";
import { newId } from "../runtime/new-id.ts";
import { isUuid } from "../runtime/uuid.ts";
import type { EncodedRow, Member } from "../sql/enqueue.ts";
import type { Dependency } from "./after.ts";
import { shapingKeys } from "./shaping.ts";
import {
  requireBatchEntries,
  requireEntries,
  type BatchOptions,
  type FlowParts,
  type ManyEntry,
} from "./entries.ts";

/** Encodes one entry with this id. */
type Prepare = (entry: ManyEntry, id: string) => EncodedRow | Promise<EncodedRow>;

/** Rows that belong together, in an order in which each is written after those that it waits for. */
export type FlowRows = { readonly id: string; readonly rows: (EncodedRow | Promise<EncodedRow>)[] };

/** @throws {InvalidOptionError} A part is wrong, or parts wait for one another in a circle. Nothing was written. */
export function flowRows(name: string, parts: FlowParts, prepare: Prepare): FlowRows & { names: string[] } {
  const what = `flow("${checkName(name, "flow(name)")}")`;
  const given: unknown = parts;
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw new InvalidOptionError(what, `must be an object of entries by name, got ${describe(given)}`);
  const entries = Object.entries(parts);
  if (entries.length === 0) throw new InvalidOptionError(what, "must have a part");
  for (const [part, entry] of entries) {
    checkName(part, `${what}(part)`);
    requireEntries([entry], `${what}.${part}`);
    for (const option of ["id", ...shapingKeys] as const)
      if (entry.options?.[option] !== undefined)
        throw new InvalidOptionError(`${what}.${part}.${option}`, "cannot be given to a part of a flow");
  }
  const isName = (one: Dependency): one is string => typeof one === "string" && !isUuid(one);
  const names = inFlowOrder(
    what,
    new Map(entries.map(([part, { options }]) => [part, (options?.after ?? []).filter(isName)])),
  );
  const id = newId();
  const ids = new Map(names.map((part) => [part, newId()]));
  const toId = (one: Dependency): Dependency => (isName(one) ? (ids.get(one) ?? one) : one);
  const rows = [...ids].flatMap(([part, own]) => {
    const entry = parts[part];
    if (entry === undefined) return [];
    const after = entry.options?.after?.map(toId);
    const options = { ...entry.options, ...(after === undefined ? {} : { after }) };
    return withMember(prepare({ ...entry, options }, own), { flow: { id, name }, name: part });
  });
  return { id, rows, names };
}

/** @throws {InvalidOptionError} An entry or an option is wrong. Nothing was written. */
export function batchRows(
  entries: readonly ManyEntry[],
  options: BatchOptions,
  prepare: Prepare,
): FlowRows & { callback: string } {
  refuseUnknownKeys("batch", options, ["onComplete", "name", "open"]);
  requireBatchEntries([options.onComplete], "batch.onComplete", ["after", "onFailure"]);
  const isOpen = options.open !== undefined && requireBoolean("batch.open", options.open);
  const name = options.name === undefined ? {} : { name: checkName(options.name, "batch.name") };
  requireBatchEntries(entries, "batch");
  if (entries.length === 0 && !isOpen)
    throw new InvalidOptionError("batch", "must have a job, or open: true to add some later");
  const flow = { id: newId(), ...name };
  const owned = entries.map((entry) => ({ entry, id: newId() }));
  const ids = owned.map(({ id }) => id);
  const rows = owned.map(({ entry, id }) => withMember(prepare(entry, id), { flow }));
  const callback = newId();
  const waits: Member = { flow, name: "onComplete", after: ids, on_failure: "run" };
  rows.push(withMember(prepare(options.onComplete, callback), isOpen ? { ...waits, open: true } : waits));
  return { id: flow.id, rows, callback };
}

function withMember(row: EncodedRow | Promise<EncodedRow>, member: Member): EncodedRow | Promise<EncodedRow> {
  const joined = (encoded: EncodedRow): EncodedRow => ({
    ...encoded,
    row: { ...encoded.row, member: { ...encoded.row.member, ...member } },
  });
  return row instanceof Promise ? row.then(joined) : joined(row);
}
