import { randomBytes } from "node:crypto";
import type { Session } from "../../db/session.ts";
import { sleep } from "../../runtime/sleep.ts";
import { notify, whoAndWhen } from "../../sql/doctor/server.ts";
import type { Check, Uses } from "../check.ts";
import { error, note, warning, type Finding, type Seen } from "../finding.ts";

const notifiedWithinMs = 2_000;

/** How long a statement may wait for a connection of the pooler while another client holds one. */
const waitWithinMs = 3_000;

/** Whether clients connect through a pooler, and what does not work through it. */
export const pooler: Check = {
  name: "pooler",
  needsSchema: false,
  look: async ({ open, uses }) => {
    const [first, second] = [await open(), await open()];
    try {
      return poolerRule(await poolerFacts(first, second, uses), uses);
    } finally {
      await Promise.all([first.end(), second.end()]);
    }
  },
};

export type PoolerFacts = {
  /** Whether a pooler was detected at login, the way Stint's clients detect one. */
  detected?: boolean;
  /** Two statements of one client ran on two connections of the server. */
  moves: boolean;
  /** A prepared statement is still there the next time; undefined: not tried. */
  keepsPrepared: boolean | undefined;
  /** LISTEN works; undefined: not tried. */
  deliversNotifications: boolean | undefined;
};

/**
 * The probes leave traces in server sessions that other clients share. Behind a pooler, only features that clients use
 * anyway are probed.
 */
async function poolerFacts(first: Session, second: Session, uses: Uses): Promise<PoolerFacts> {
  const detected = first.pooled;
  const { names, listens } = used(uses, detected);
  return {
    detected,
    ...(await movingFacts(first, second, names || !detected)),
    deliversNotifications: listens || !detected ? await receivesNotification(first, second) : undefined,
  };
}

function used({ prepare, notify: notifies }: Uses, detected: boolean): { names: boolean; listens: boolean } {
  return { names: prepare ?? !detected, listens: notifies ?? !detected };
}

async function movingFacts(
  first: Session,
  second: Session,
  prepares: boolean,
): Promise<Pick<PoolerFacts, "moves" | "keepsPrepared">> {
  const pid = async (session: Session): Promise<unknown> => (await session.plain(whoAndWhen, []))[0]?.["pid"];
  const prepared = async (): Promise<unknown> => await first.plain(whoAndWhen, [], "stint-doctor");
  const look = async (): Promise<Pick<PoolerFacts, "moves" | "keepsPrepared">> => {
    const moves = before !== (await pid(first));
    if (!prepares) return { moves, keepsPrepared: undefined };
    const kept = prepared().then(
      () => true,
      () => false,
    );
    return { moves, keepsPrepared: await kept };
  };
  const before = await pid(first);
  if (prepares) await prepared();
  let looking: ReturnType<typeof look> | undefined;
  // A second client now occupies the server connection that the pooler would otherwise assign to the first again.
  const inTime = await second.holding(async () => {
    await pid(second);
    looking = look();
    // A pooler with a single server connection cannot serve the first client until the second is done.
    return await Promise.race([looking, sleep(waitWithinMs).then(() => undefined)]);
  });
  await looking;
  return inTime ?? { moves: false, keepsPrepared: undefined };
}

async function receivesNotification(first: Session, second: Session): Promise<boolean> {
  const channel = `stint-doctor-${randomBytes(6).toString("hex")}`;
  const waited = new AbortController();
  let arrived = false;
  try {
    await first.listen(channel, () => {
      arrived = true;
      waited.abort();
    });
    await second.plain(notify, [channel]);
  } catch {
    // Some poolers refuse LISTEN.
    return false;
  }
  await sleep(notifiedWithinMs, waited.signal);
  return arrived;
}

export function poolerRule(facts: PoolerFacts, uses: Uses): Seen {
  const { detected = false, moves, keepsPrepared, deliversNotifications } = facts;
  const { names, listens } = used(uses, detected);
  const findings: Finding[] = [];
  if (keepsPrepared === false && names)
    findings.push(
      error(
        "Prepared statements get lost between transactions",
        "a pooler in transaction mode may run each transaction on a different server connection",
        detected
          ? "Leave out prepare, or pass prepare: false to createStint: Stint then sends no named statements."
          : "Pass prepare: false to createStint.",
      ),
    );
  if (moves && keepsPrepared === true && names && !detected)
    findings.push(
      warning(
        "Session settings of Stint reach other clients that share the connections",
        "a pooler in transaction mode preserves prepared statements, but not session settings (such as the isolation level)",
        "Pass prepare: false to createStint: Stint then changes no session settings.",
      ),
    );
  if (deliversNotifications === false && listens)
    findings.push(
      warning(
        "Workers poll without notifications: LISTEN does not work over this connection",
        `a NOTIFY sent by a second connection did not arrive within ${notifiedWithinMs / 1_000} s`,
        'Connect the workers past the pooler, or pass wake: "none" to createStint: they then poll for jobs.',
      ),
    );
  if (moves && findings.length === 0)
    findings.push(
      note(
        "Clients connect through a pooler in transaction mode",
        "two statements of one client ran on two server connections",
        "No action needed: the options of this config work with the pooler.",
      ),
    );
  if (detected && findings.length === 0)
    findings.push(
      note(
        "Clients connect through a pooler",
        "the server session changed after login, so Stint polls, sends no named statements and sets no session settings",
        "No action needed. Workers that connect directly start jobs sooner.",
      ),
    );
  const seen = moves
    ? "a pooler in transaction mode"
    : detected
      ? "a pooler"
      : "no pooler, or one in session mode";
  const listen =
    deliversNotifications === undefined ? "is not used" : deliversNotifications ? "works" : "does not work";
  return { seen: `${seen}; LISTEN ${listen}`, findings };
}
