import { limitTransitions } from "./limit-transitions.ts";
import {
  handlerReasons,
  liftableReasons,
  parkReasons,
  timedReasons,
  type ParkReason,
} from "./park-reasons.ts";

/** Every state a job can be in. `transitions` below says how it changes. */
export const states = [
  "scheduled",
  "ready",
  "running",
  "retrying",
  "parked",
  "succeeded",
  "dead",
  "cancelled",
] as const;

export type JobState = (typeof states)[number];

/** States of jobs that may still run by themselves. They are in the hot table. */
export const liveStates = [
  "scheduled",
  "ready",
  "running",
  "retrying",
  "parked",
] as const satisfies JobState[];

/** States of jobs that ended. They are in the history. */
export const terminalStates = ["succeeded", "dead", "cancelled"] as const satisfies JobState[];

export type LiveState = (typeof liveStates)[number];
export type TerminalState = (typeof terminalStates)[number];

export function isTerminal(state: JobState): state is TerminalState {
  return (terminalStates as readonly JobState[]).includes(state);
}

/** `absent`: the job was not enqueued yet. */
export type FromState = JobState | "absent";

/** One way for a job to change its state. */
export type Transition = {
  readonly from: readonly FromState[];
  readonly to: JobState;
  /** The statement that does it: the file of this name in sql/, and the name in `pg_stat_activity`. Variants of a statement count as it. */
  readonly move: string;
  readonly when: string;
  readonly by: string;
  /** The park reasons with which this may happen; left out where the job is parked neither before nor after. */
  readonly park?: readonly ParkReason[];
};

const waiting = ["scheduled", "ready", "retrying", "parked"] as const satisfies LiveState[];
const itsWorker = "its worker, fenced";
const anyWorker = "any worker";
const endsOther = "the statement that ends that job";

/**
 * Every transition there is. `docs/lifecycle.md` shows this table; `test/sql/transitions.test.ts` runs every statement on jobs of every
 * state and finds these transitions and no others.
 */
export const transitions: readonly Transition[] = [
  { from: ["absent"], to: "ready", move: "enqueue", when: "enqueued", by: "client, SQL" },
  {
    from: ["absent"],
    to: "scheduled",
    move: "enqueue",
    when: "enqueued with a time that is later by the database's clock",
    by: "client, SQL",
  },
  {
    from: ["absent"],
    to: "parked",
    move: "enqueue",
    when: "enqueued with `replace` or `debounce` while another job that holds its dedupe key runs or is parked",
    by: "client, SQL",
    park: ["latest"],
  },
  {
    from: ["ready"],
    to: "scheduled",
    move: "enqueue",
    when: "replaced by an enqueue with the same dedupe key and a later time",
    by: "client, SQL",
  },
  {
    from: ["scheduled"],
    to: "ready",
    move: "enqueue",
    when: "replaced by an enqueue with the same dedupe key and a time that has passed",
    by: "client, SQL",
  },
  {
    from: ["absent"],
    to: "parked",
    move: "enqueue",
    when: "enqueued with `after`, and a job that it waits for has not ended",
    by: "client, SQL",
    park: ["blocked"],
  },
  {
    from: ["absent"],
    to: "cancelled",
    move: "enqueue",
    when: 'enqueued with `after` and `onFailure: "cancel"`, and a job that it waits for is dead or cancelled already',
    by: "client, SQL",
  },
  ...limitTransitions,
  {
    from: ["parked"],
    to: "ready",
    move: "latest",
    when: "the job that held its dedupe key has ended",
    by: "the statement that ended it",
    park: ["latest"],
  },
  {
    from: ["parked"],
    to: "ready",
    move: "follow-ups",
    when: "the last job that it waits for has ended, in the same transaction",
    by: endsOther,
    park: ["blocked"],
  },
  {
    from: ["parked"],
    to: "scheduled",
    move: "latest",
    when: "the same, and its own time has not come",
    by: "the statement that ended it",
    park: ["latest"],
  },
  {
    from: ["parked"],
    to: "scheduled",
    move: "follow-ups",
    when: "the last job that it waits for has ended, and it has a delay or a later time",
    by: endsOther,
    park: ["blocked"],
  },
  {
    from: ["parked"],
    to: "cancelled",
    move: "follow-ups",
    when: 'a job that it waits for has died or was cancelled, and its `onFailure` is "cancel"',
    by: endsOther,
    park: ["blocked"],
  },
  {
    from: ["scheduled", "ready", "retrying"],
    to: "cancelled",
    move: "follow-ups",
    when: "another part of its flow failed, and the flow has compensations; or the flow, or the parent that waits for it, was cancelled",
    by: "the statement that ends that part",
  },
  {
    from: ["absent"],
    to: "ready",
    move: "follow-ups",
    when: "its predecessor succeeded with `continueWith`, or its parent settled with `spawn`",
    by: endsOther,
  },
  { from: ["absent"], to: "cancelled", move: "follow-ups", when: "its chain was cancelled", by: endsOther },
  { from: ["scheduled", "retrying"], to: "ready", move: "promote", when: "due", by: anyWorker },
  {
    from: ["parked"],
    to: "ready",
    move: "promote",
    when: "its `until` has passed",
    by: anyWorker,
    park: timedReasons,
  },
  {
    from: ["ready"],
    to: "running",
    move: "claim",
    when: "claimed: `attempts + 1`, `epoch + 1`, new lease",
    by: "a worker",
  },
  {
    from: ["parked"],
    to: "running",
    move: "claim-quarantined",
    when: "claimed to be run alone",
    by: "an idle worker",
    park: ["quarantine"],
  },
  {
    from: ["running"],
    to: "succeeded",
    move: "succeed",
    when: "the handler returned without a result",
    by: itsWorker,
  },
  {
    from: ["running"],
    to: "succeeded",
    move: "finish",
    when: "the handler returned a result, or `complete` committed",
    by: itsWorker,
  },
  {
    from: ["running"],
    to: "dead",
    move: "finish",
    when: "`PermanentError`, a result that its schema refuses, or the last attempt failed; or its isolated handler crashed for the `maxCrashes`th time: `attempts − 1`, `crashes + 1`",
    by: itsWorker,
  },
  {
    from: ["running"],
    to: "cancelled",
    move: "finish",
    when: "the handler returned `cancel(…)`, or stopped after a cancel",
    by: itsWorker,
  },
  {
    from: ["running"],
    to: "retrying",
    move: "requeue",
    when:
      "the handler threw or timed out, and attempts are left; or the database failed the transaction it was given: `attempts − 1`, " +
      "`faults + 1`, at most 20 times; or its isolated handler crashed: `attempts − 1`, `crashes + 1`",
    by: itsWorker,
  },
  {
    from: ["running"],
    to: "scheduled",
    move: "requeue",
    when: "the handler returned `snooze(…)`: `attempts − 1`, `interruptions + 1`",
    by: itsWorker,
  },
  {
    from: ["running"],
    to: "ready",
    move: "requeue",
    when: "released by a stopping worker: `attempts − 1`, `interruptions + 1`; or failed with a backoff of zero",
    by: itsWorker,
  },
  {
    from: ["running"],
    to: "parked",
    move: "requeue",
    when: "released by a stopping worker while it ran alone",
    by: itsWorker,
    park: ["quarantine"],
  },
  {
    from: ["running"],
    to: "parked",
    move: "park",
    when: "the handler returned `park(…)`: `attempts − 1`, `interruptions + 1`",
    by: itsWorker,
    park: handlerReasons,
  },
  {
    from: ["running"],
    to: "parked",
    move: "park",
    when: "the handler returned `waitForChildren(…)`: `attempts − 1`, `interruptions + 1`",
    by: itsWorker,
    park: ["blocked"],
  },
  {
    from: ["running"],
    to: "parked",
    move: "suspend",
    when: "the handler called `sleep` or `waitForSignal`: `attempts − 1`, `interruptions + 1`, nothing is logged",
    by: itsWorker,
    park: ["sleep", "signal"],
  },
  {
    from: ["running"],
    to: "ready",
    move: "suspend",
    when: "the handler called `waitForSignal`, and the signal arrived meanwhile",
    by: itsWorker,
  },
  {
    from: ["parked"],
    to: "ready",
    move: "deliver",
    when: "the signal it waits for was sent",
    by: anyWorker,
    park: ["signal"],
  },
  {
    from: ["running"],
    to: "ready",
    move: "release",
    when: "claimed ahead and never begun: `attempts − 1`, nothing is logged",
    by: "its worker or its lease thread, fenced",
  },
  {
    from: ["running"],
    to: "parked",
    move: "release",
    when: "claimed to be run alone and never begun: `attempts − 1`, nothing is logged",
    by: "its worker or its lease thread, fenced",
    park: ["quarantine"],
  },
  {
    from: ["running"],
    to: "parked",
    move: "hold-paused",
    when: "claimed and not begun, and its tenant or key is paused: `attempts − 1`, nothing is logged",
    by: itsWorker,
    park: ["paused"],
  },
  { from: ["parked"], to: "ready", move: "lift-paused", when: "resumed", by: anyWorker, park: ["paused"] },
  {
    from: ["running"],
    to: "ready",
    move: "rescue",
    when: "its lease ran out: `attempts − 1`, `crashes + 1`",
    by: anyWorker,
  },
  {
    from: ["running"],
    to: "parked",
    move: "rescue",
    when: "its lease ran out, and one more crash could be its last",
    by: anyWorker,
    park: ["quarantine"],
  },
  {
    from: ["running"],
    to: "dead",
    move: "rescue",
    when: "its lease ran out for the `maxCrashes`th time, and it ran alone (or one crash was all it had)",
    by: anyWorker,
  },
  {
    from: ["running"],
    to: "cancelled",
    move: "rescue",
    when: "its lease ran out after a cancel was requested",
    by: anyWorker,
  },
  { from: waiting, to: "cancelled", move: "expire", when: "expired", by: anyWorker, park: parkReasons },
  { from: waiting, to: "cancelled", move: "cancel", when: "`cancel`", by: "a person", park: parkReasons },
  {
    from: ["scheduled", "retrying", "parked"],
    to: "ready",
    move: "run-now",
    when: "`runNow`",
    by: "a person",
    park: liftableReasons,
  },
  {
    from: waiting,
    to: "succeeded",
    move: "complete",
    when: "`stint.complete(…)`: no worker runs it",
    by: "a person, a program",
    park: parkReasons,
  },
  {
    from: ["ready"],
    to: "scheduled",
    move: "change",
    when: "`stint.change(…)` with a later time",
    by: "a person, a program",
  },
  {
    from: ["scheduled", "retrying"],
    to: "ready",
    move: "change",
    when: "`stint.change(…)` with a time that has passed",
    by: "a person, a program",
  },
  {
    from: ["dead", "cancelled"],
    to: "ready",
    move: "replay",
    when: "`replay`: `run + 1`, attempts and crashes from 0, the epoch continues",
    by: "a person",
  },
  {
    from: ["dead", "cancelled"],
    to: "parked",
    move: "replay",
    when: "`replay`, and a job that it waits for has not ended",
    by: "a person",
    park: ["blocked"],
  },
];

/** Whether any statement may do this. */
export function isAllowed(from: FromState, to: JobState): boolean {
  return transitions.some((one) => one.from.includes(from) && one.to === to);
}
