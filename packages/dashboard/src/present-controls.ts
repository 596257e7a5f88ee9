/** Controls as they may leave the server: without tenants and keys where they could repeat a redacted value. */
import type { Capacity, Controls, QueueTenants, WaitingTenants } from "stint/inspect";
import type { Visitor } from "./access.ts";
import { Problem } from "./problem.ts";
import type { Redactor } from "./redact.ts";

/** Names of queues and kinds are shown to every role. Tenants and keys are values, mostly from payloads. */
export function pausesValue(scope: string): boolean {
  return scope === "tenant" || scope === "key";
}

/** Whether a limit is of one key, such as `key:account=42`. */
export function limitsValue(name: string): boolean {
  return name.includes("=");
}

/** Tenants of one queue; `exact`: of a fair queue, with the depth of each. */
export type PresentedTenants = WaitingTenants & {
  readonly exact: QueueTenants["tenants"] | null;
  readonly hidden?: true;
};

export function presentTenants(
  found: WaitingTenants,
  exact: QueueTenants["tenants"] | null,
  visitor: Visitor,
  redactor: Redactor,
): PresentedTenants {
  if (mayName(visitor, redactor)) return { ...found, exact };
  return { ...found, tenants: [], exact: null, hidden: true };
}

function changesValue({ action, subject }: Controls["changes"][number]): boolean {
  const isPause = action === "pause" || action === "resume";
  return isPause ? pausesValue(subject.split(":", 1).join("")) : limitsValue(subject);
}

function mayName(visitor: Visitor, redactor: Redactor): boolean {
  return !redactor.hidesData || visitor.can.payloads;
}

/** Controls as JSON. `hidden`: this role gets no tenants and keys. */
export function presentControls(json: string, visitor: Visitor, redactor: Redactor): string {
  if (mayName(visitor, redactor)) return json;
  const { pauses, limits, keys, changes, ...rest } = JSON.parse(json) as Controls;
  return JSON.stringify({
    ...rest,
    pauses: pauses.filter(({ scope }) => !pausesValue(scope)),
    limits: limits.filter(({ name }) => !limitsValue(name)),
    keys: keys.filter(({ key }) => !limitsValue(key)),
    changes: changes.filter((change) => !changesValue(change)),
    hidden: true,
  });
}

/** What limits a pool may be the full limit of one key. `hidden`: this role gets the name of the limit without the value. */
export function presentCapacity(
  capacity: Capacity,
  visitor: Visitor,
  redactor: Redactor,
): Capacity & { readonly hidden?: true } {
  if (mayName(visitor, redactor)) return capacity;
  const pools = capacity.pools.map((pool) => {
    const { name, text } = pool.limitedBy;
    if (name === null || !limitsValue(name)) return pool;
    const rule = name.slice(0, name.indexOf("="));
    return { ...pool, limitedBy: { ...pool.limitedBy, name: rule, text: text.replaceAll(name, rule) } };
  });
  return { ...capacity, pools, hidden: true };
}

/**
 * The response to a change says whether the tenant or the key was in use. So the change needs the right to see payloads.
 *
 * @throws {Problem} The visitor may not name this.
 */
export function requireNameable(isValue: boolean, visitor: Visitor, redactor: Redactor): void {
  if (!isValue || mayName(visitor, redactor)) return;
  throw new Problem(
    403,
    "NOT_ALLOWED",
    "Your role may not name tenants and keys: some values are redacted, and the response would confirm a guess at them.",
    { hint: "Name a queue or a kind, or ask for the right to see payloads." },
  );
}
