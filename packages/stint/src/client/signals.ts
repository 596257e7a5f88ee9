import { ConnectionLost, type Db } from "../db/db.ts";
import { isTooLate } from "../db/server-clock.ts";
import { InvalidOptionError, JobNotFoundError, UnknownOutcomeError, WrongStateError } from "../errors.ts";
import { describe } from "../model/describe.ts";
import { encodeJson } from "../model/json.ts";
import { checkName, checkText, closest } from "../model/names.ts";
import { refuseUnknownKeys } from "../model/options.ts";
import { liveStates } from "../model/state.ts";
import { newId } from "../runtime/new-id.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep } from "../runtime/sleep.ts";
import { sendSignalOnce, type SignalSent, type SignalRow } from "../sql/signals.ts";
import { explainError } from "./explain-error.ts";
import { isUuid } from "../runtime/uuid.ts";
import { requireId } from "./ids.ts";
import { mostRefusals } from "./retry.ts";

/** The job of a signal: what `enqueue` returned, its id, or its key. A text that is a UUID is an id. */
export type SignalTarget =
  | string
  | { readonly id: string }
  | { readonly key: string; readonly kind?: string };

export type SignalSendOptions = {
  /** Repeat a signal whose outcome is unknown with the id it had: it is then the same signal. */
  id?: string;
};

/** Check a signal before it is sent. */
export function toSignalRow(
  target: SignalTarget,
  name: string,
  payload: unknown,
  options: SignalSendOptions,
  { sender, maxBytes }: { sender: string; maxBytes: number },
): SignalRow {
  checkName(name, "signal(name)");
  refuseUnknownKeys("signal", options, ["id"]);
  return {
    id: options.id === undefined ? newId() : requireId(options.id, "signal.id"),
    ...toTarget(target),
    name,
    payload: encodeJson(payload ?? null, { kind: `signal ${name}`, root: "payload", maxBytes }),
    sender,
  };
}

function toTarget(target: SignalTarget): Pick<SignalRow, "target" | "kind"> {
  if (typeof target === "string") return { target: checkText(target, "signal(target)"), kind: null };
  const given: unknown = target;
  if (typeof given !== "object" || given === null)
    throw new InvalidOptionError(
      "signal(target)",
      `must be the id or the key of a job, or what enqueue returned, got ${describe(given)}`,
    );
  if ("id" in target) return { target: requireId(target.id, "signal(target).id"), kind: null };
  refuseUnknownKeys("signal(target)", target, ["key", "kind"]);
  const key = checkText(target.key, "signal(target).key");
  if (isUuid(key))
    throw new InvalidOptionError(
      "signal(target).key",
      `is a UUID (${key}), which stands for the id of a job`,
    );
  return {
    target: key,
    kind: target.kind === undefined ? null : checkName(target.kind, "signal(target).kind"),
  };
}

const mostTries = 5;

/**
 * Send a signal, committed when this resolves. It is repeated when its response is lost: its id makes it the same signal. A send that arrives after
 * its deadline changes nothing.
 */
export async function sendSignal(db: Db, row: SignalRow, notify: boolean): Promise<SignalSent> {
  const retryDelay = new RetryDelay();
  let refusals = 0;
  for (let tries = 1; ; tries++) {
    try {
      return await sendSignalOnce(db, row, notify, db.clock.deadline(refusals));
    } catch (error) {
      if (isTooLate(error) && refusals++ < mostRefusals) continue;
      if (!(error instanceof ConnectionLost)) throw explainError(error, db.schema);
      if (tries >= mostTries) throw new UnknownOutcomeError(`signal ${row.name}`, [row.id], { cause: error });
      await sleep(retryDelay.next());
    }
  }
}

/** The id of the job that the signal was sent to. @throws It could not be sent; nothing was written. */
export function jobOfSignal(row: SignalRow, { status, job: id, kind, state, declared }: SignalSent): string {
  const { target, name } = row;
  if (status === "absent" || id === null) throw new JobNotFoundError(target);
  if (status === "ended") throw new WrongStateError(id, state ?? "ended", `signal "${name}"`, liveStates);
  if (status === "ambiguous")
    throw new InvalidOptionError(
      "signal(target)",
      `several live jobs have the key ${describe(target)}. Use the id of one of them, or { key, kind }. Nothing was sent`,
    );
  if (status === "undeclared") {
    const suggestion = closest(name, declared ?? []);
    throw new InvalidOptionError(
      "signal(name)",
      `kind "${kind}" declares no signal "${name}"` +
        (suggestion === undefined
          ? `; it declares ${declared?.join(", ") || "none"}. Nothing was sent`
          : `; did you mean "${suggestion}"? Nothing was sent`),
    );
  }
  return id;
}
