import { columns, number, readRows, text } from "../../db/row.ts";
import type { Session } from "../../db/session.ts";
import { formatMs } from "../../model/figures.ts";
import { whoAndWhen } from "../../sql/doctor/server.ts";
import type { Check } from "../check.ts";
import { warning, type Seen } from "../finding.ts";

const samples = 5;
const skewMs = 1_000;

/** The clock of this host against the database's. Only the latter decides anything, but people compare times with the former. */
export const clock: Check = {
  name: "clock",
  needsSchema: false,
  look: async ({ session }) => clockRule(await clockFacts(session)),
};

export type ClockFacts = { aheadMs: number; roundTripMs: number; zone: string };

const toServerClock = columns<{ at: number; zone: string }>({ at: number, zone: text });

async function clockFacts(session: Session): Promise<ClockFacts> {
  let best: ClockFacts | undefined;
  for (let count = 0; count < samples; count++) {
    const began = performance.now();
    const began0 = Date.now();
    const rows = await session.plain(whoAndWhen, []);
    const roundTripMs = performance.now() - began;
    const [server] = readRows(whoAndWhen, rows, toServerClock);
    if (server === undefined) continue;
    // The server read its clock between send and receipt; the midpoint is wrong by at most half of the round trip.
    const aheadMs = began0 + roundTripMs / 2 - server.at;
    if (best === undefined || roundTripMs < best.roundTripMs)
      best = { aheadMs, roundTripMs, zone: server.zone };
  }
  if (best === undefined) throw new Error("the server returned no time");
  return best;
}

export function clockRule({ aheadMs, roundTripMs, zone }: ClockFacts): Seen {
  const seen = `round trip ${roundTripMs.toFixed(1)} ms, time zone ${zone}`;
  const sure = Math.abs(aheadMs) - roundTripMs / 2;
  if (sure < skewMs) return { seen, findings: [] };
  const direction = aheadMs > 0 ? "ahead of" : "behind";
  return {
    seen,
    findings: [
      warning(
        "The clock of this host differs from the database's",
        `it is ${formatMs(Math.abs(aheadMs))} ${direction} the database`,
        "Synchronise both hosts with NTP (chrony or systemd-timesyncd). " +
          "Leases and delays are safe; times given as dates are not. Prefer a delay to a date.",
      ),
    ],
  };
}
