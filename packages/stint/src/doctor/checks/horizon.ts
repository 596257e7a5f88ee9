import { formatCount, formatMs } from "../../model/figures.ts";
import { pins, slots, type Pin, type Slot } from "../../sql/doctor/sessions.ts";
import type { Check } from "../check.ts";
import { error, warning, type Finding, type Seen } from "../finding.ts";
import { quoteLiteral } from "../../db/quote.ts";

/** Further behind, a claim passes so many dead rows that it becomes slow. */
const longMs = 600_000;
/** A standby or slot is always a little behind. */
const behindNormally = 10_000;
const gigabyte = 2 ** 30;

/** What pins the xmin horizon: until it ends, vacuum cannot remove rows that died since. */
export const horizon: Check = {
  name: "horizon",
  needsSchema: false,
  look: async ({ session, patienceMs }) =>
    horizonRule(await pins(session, patienceMs, behindNormally), await slots(session)),
};

export function horizonRule(found: readonly Pin[], replication: readonly Slot[]): Seen {
  const findings = [...found.map(pinned), ...replication.flatMap(lagging)];
  const [oldest] = found;
  return { seen: oldest === undefined ? "not pinned" : `pinned by ${describe(oldest)}`, findings };
}

function pinned(pin: Pin): Finding {
  const level = pin.ageMs === null ? pin.state === "inactive" : pin.ageMs > longMs;
  return (level ? error : warning)(titles[pin.by], describe(pin), fixOf(pin));
}

const titles: Record<Pin["by"], string> = {
  session: "A session pins the xmin horizon: dead rows pile up until its transaction ends",
  prepared: "A prepared transaction pins the xmin horizon, and no restart ends it",
  slot: "A replication slot pins the xmin horizon",
  standby: "A standby with hot_standby_feedback pins the xmin horizon",
};

function describe(pin: Pin): string {
  const words = {
    session: `pid ${pin.id}, application "${pin.name}", user ${pin.user ?? "unknown"}, ${pin.state ?? "state unknown"}`,
    prepared: `"${pin.id}" of user ${pin.user ?? "unknown"}`,
    slot: `${pin.name} slot "${pin.id}", ${pin.state ?? "state unknown"}`,
    standby: `${pin.id}, application "${pin.name}", user ${pin.user ?? "unknown"}`,
  }[pin.by];
  const age = pin.ageMs === null ? "" : `, open for ${formatMs(pin.ageMs)}`;
  return `${words}${age}, ${formatCount(pin.behind)} transactions behind`;
}

function fixOf(pin: Pin): string {
  switch (pin.by) {
    case "session":
      return `End it: select pg_terminate_backend(${pin.id}); then find out why its application leaves transactions open.`;
    case "prepared":
      return `End it, in this database: rollback prepared ${quoteLiteral(pin.id)}; or commit prepared, if its coordinator had decided so.`;
    case "slot":
      return pin.state === "inactive"
        ? `If its standby is gone for good: select pg_drop_replication_slot(${quoteLiteral(pin.id)});`
        : "End the long query on its standby, or set hot_standby_feedback = off there.";
    case "standby":
      return "End the long query there (its pg_stat_activity says which), or set hot_standby_feedback = off there.";
    default:
      return pin.by satisfies never;
  }
}

function lagging({ slot, type, active, catalogBehind, keptBytes }: Slot): Finding[] {
  if (active || ((keptBytes ?? 0) < gigabyte && (catalogBehind ?? 0) < 1_000_000)) return [];
  const kept = keptBytes === null ? "an unknown amount" : `${(keptBytes / gigabyte).toFixed(1)} GB`;
  return [
    warning(
      "A replication slot has no reader, so the server keeps its WAL",
      `${type} slot "${slot}" keeps ${kept} of WAL`,
      `Start its reader again, or, if it is gone for good: select pg_drop_replication_slot(${quoteLiteral(slot)});`,
    ),
  ];
}
