import { randomBytes } from "node:crypto";
import type { Session } from "../../db/session.ts";
import { sleep } from "../../runtime/sleep.ts";
import { notify, whoAndWhen } from "../../sql/doctor/server.ts";
import type { Check } from "../check.ts";
import { error, note, warning, type Finding, type Seen } from "../finding.ts";

const hearWithinMs = 2_000;

/** Whether a pooler stands between, and what gets lost in it. Tried out, because poolers do not say. */
export const pooler: Check = {
  name: "pooler",
  needsSchema: false,
  look: async ({ open, uses }) => {
    const [first, second] = [await open(), await open()];
    try {
      return poolerRule(await poolerFacts(first, second), uses);
    } finally {
      await Promise.all([first.end(), second.end()]);
    }
  },
};

export type PoolerFacts = {
  /** Two statements of one client ran on two connections of the server. */
  moves: boolean;
  /** A prepared statement is still there the next time. */
  keepsPrepared: boolean;
  hears: boolean;
};

async function poolerFacts(first: Session, second: Session): Promise<PoolerFacts> {
  const pid = async (session: Session): Promise<unknown> => (await session.plain(whoAndWhen, []))[0]?.["pid"];
  const before = await pid(first);
  await first.plain(whoAndWhen, [], "stint-doctor");
  // Somebody else now has the connection that the pooler would give us again out of habit.
  const [after, keepsPrepared] = await second.holding(async () => {
    await pid(second);
    return [
      await pid(first),
      await first.plain(whoAndWhen, [], "stint-doctor").then(
        () => true,
        () => false,
      ),
    ];
  });
  return { moves: before !== after, keepsPrepared, hears: await hears(first, second) };
}

async function hears(first: Session, second: Session): Promise<boolean> {
  const channel = `stint-doctor-${randomBytes(6).toString("hex")}`;
  const waited = new AbortController();
  let heard = false;
  try {
    await first.listen(channel, () => {
      heard = true;
      waited.abort();
    });
    await second.plain(notify, [channel]);
  } catch {
    // There are poolers that refuse it.
    return false;
  }
  await sleep(hearWithinMs, waited.signal);
  return heard;
}

export function poolerRule(
  { moves, keepsPrepared, hears: heard }: PoolerFacts,
  uses: { prepare: boolean; notify: boolean },
): Seen {
  const findings: Finding[] = [];
  if (!keepsPrepared && uses.prepare)
    findings.push(
      error(
        "Prepared statements get lost between transactions",
        "a pooler in transaction mode gives each transaction another connection of the server",
        "Pass prepare: false to createStint.",
      ),
    );
  if (moves && keepsPrepared && uses.prepare)
    findings.push(
      warning(
        "What Stint sets for its sessions reaches others who share the connections",
        "a pooler in transaction mode carries prepared statements, but no settings of a session (such as its isolation level)",
        "Pass prepare: false to createStint: nothing is set then.",
      ),
    );
  if (!heard && uses.notify)
    findings.push(
      warning(
        "Wakes are not heard: LISTEN does not work over this connection",
        `a NOTIFY sent by a second connection did not arrive within ${hearWithinMs / 1_000} s`,
        'Connect the workers past the pooler, or pass wake: "none" to createStint: they then look for jobs at intervals.',
      ),
    );
  if (moves && findings.length === 0)
    findings.push(
      note(
        "A pooler in transaction mode stands between",
        "two statements of one client ran on two connections of the server",
        "Nothing need be done: the options of this config fit it.",
      ),
    );
  const seen = moves ? "a pooler in transaction mode" : "no pooler, or one in session mode";
  return { seen: `${seen}; LISTEN ${heard ? "works" : "does not work"}`, findings };
}
