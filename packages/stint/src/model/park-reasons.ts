/** Why a job is held back, and what that means for it. */
export type ParkRule = {
  /** What parks jobs so: a handler that returns `park(…)`, or Stint. `reserved`: a feature to come; no statement writes it yet. */
  readonly by: "handler" | "stint" | "reserved";
  /** Whether `runNow` may lift it. A reason that guards a limit, an order or a decision is lifted by what it waits for, and by nothing else. */
  readonly runNow: boolean;
  /** Whether a job may be parked so until a time, at which a worker lifts it. */
  readonly until: boolean;
  /** The text of `stint jobs why`, and of a `runNow` that cannot lift the reason: what the job waits for, or who lifts it. */
  readonly why: string;
};

const reserved = { by: "reserved", runNow: false, until: false } as const;

/**
 * Every park reason. A new one needs an entry here, its transitions in `state.ts`, and the statement that parks. Tallies count parked
 * jobs whatever their reason; the view `stint.jobs`, lists and the dashboard show the reason itself.
 */
export const parkRules = {
  quarantine: {
    by: "stint",
    runNow: true,
    until: false,
    why: "It runs next when a worker is idle, alone on it, so that another crash harms no other job.",
  },
  review: {
    by: "handler",
    runNow: true,
    until: true,
    why: "Its handler parked it for review. It runs again after `runNow`, or at its `until` if it has one.",
  },
  sleep: {
    by: "stint",
    runNow: true,
    until: true,
    why: "Its handler sleeps. It continues at its `until`, or after `runNow`.",
  },
  signal: {
    by: "stint",
    runNow: false,
    until: true,
    why: "Its handler waits for a signal. It continues when the signal is sent, or at its `until` if it has one.",
  },
  latest: {
    by: "stint",
    runNow: false,
    until: false,
    why: "It has the newest work of its dedupe key, and runs once the job that holds the key has ended.",
  },
  blocked: {
    by: "stint",
    runNow: false,
    until: false,
    why: "It waits for other jobs: `stint flows show` draws them.",
  },
  paused: {
    by: "stint",
    runNow: false,
    until: false,
    why: "Its tenant or its key is paused (`stint pauses`). It runs after `stint resume`, or when the pause ends.",
  },
  breaker: { ...reserved, why: "The breaker of a dependency is open." },
  budget: { ...reserved, why: "The retry budget is spent for now." },
  limit: {
    by: "stint",
    runNow: false,
    until: false,
    why: "A limit that it is under is full, an ordered key has another job first, or a dependency of its kind has no tokens. It runs when there is a place for it.",
  },
  version: { ...reserved, why: "No running worker can read its payload." },
} as const satisfies Record<string, ParkRule>;

export type ParkReason = keyof typeof parkRules;

export const parkReasons = Object.keys(parkRules) as ParkReason[];

const where = (is: (rule: ParkRule) => boolean): ParkReason[] =>
  parkReasons.filter((reason) => is(parkRules[reason]));

/** The reasons that `park(…)` takes. */
export type HandlerParkReason = {
  [reason in ParkReason]: (typeof parkRules)[reason]["by"] extends "handler" ? reason : never;
}[ParkReason];

export const handlerReasons = where(({ by }) => by === "handler") as HandlerParkReason[];
export const liftableReasons = where(({ runNow }) => runNow);
export const timedReasons = where(({ until }) => until);
