import * as fc from "fast-check";

// What may happen to an installation, as data. Indices are taken modulo what exists when the command is run.

export type Command =
  | {
      do: "enqueue";
      jobs: {
        kind: number;
        queue: number;
        priority: number;
        maxCrashes: number | null;
        payload: number;
        delayMs: number | null;
        dedupe: Dedupe;
      }[];
    }
  | { do: "claim"; queue: number; kinds: number; limit: number; leaseMs: number }
  | { do: "claimQuarantined" }
  | { do: "renew"; fence: Pick; leaseMs: number }
  | { do: "finish"; fence: Pick; state: "succeeded" | "dead" | "cancelled" }
  | {
      do: "requeue";
      fence: Pick;
      how: "retry" | "retry at once" | "snooze" | "release" | "park" | "park for a time";
    }
  | { do: "suspend"; fence: Pick; awaits: string | null; untilMs: number | null }
  | { do: "receive"; fence: Pick; awaits: string }
  | { do: "signal"; job: number; name: string }
  | { do: "again"; fence: Pick; delayMs: number }
  | {
      do: "change";
      job: number;
      payload: number | null;
      delayMs: number | null;
      priority: number | null;
    }
  | { do: "cancel" | "replay" | "runNow" | "complete"; job: number }
  | { do: "rescue" | "promote" | "deliver" }
  | { do: "tick"; ms: number };

type Dedupe = {
  key: number;
  until: "started" | "finished" | number;
  /** Not with a key that is held for a time. */
  replace: "payload" | "run_at" | "both" | null;
  maxWaitMs: number | null;
} | null;
/** A fence: one of those that hold (`stale: false`), or any that was ever given out. */
export type Pick = { stale: boolean; index: number };

export const kinds = ["send", "sync"];
export const queues = ["main", "side"];

// Delays and leases end in 50 s, ticks in full minutes: no two ever meet, however long the commands themselves take.
const waits = fc.constantFrom(50_000, 250_000, 650_000);
const ticks = fc.constantFrom(60_000, 300_000, 900_000);

const index = fc.nat({ max: 1_000 });
const fence = fc.record({ stale: fc.constantFrom(true, false, false, false, false), index });
const signalName = fc.constantFrom("approved", "approved", "approved", "refused");
const none = fc.constant(null);
const key = fc.nat({ max: 2 });
const untilEvent = fc.constantFrom("started" as const, "finished" as const, "finished" as const);
const dedupe = fc.oneof(
  { weight: 2, arbitrary: none },
  // Plain, and a throttle.
  {
    weight: 3,
    arbitrary: fc.record({
      key,
      until: fc.oneof(untilEvent, waits),
      replace: none,
      maxWaitMs: none,
    }),
  },
  // Replace, latest and debounce.
  {
    weight: 4,
    arbitrary: fc.record({
      key,
      until: untilEvent,
      replace: fc.constantFrom("payload" as const, "run_at" as const, "both" as const),
      maxWaitMs: fc.option(waits, { freq: 1 }),
    }),
  },
);
const job = fc.record({
  kind: fc.nat({ max: 1 }),
  queue: fc.constantFrom(0, 0, 0, 1),
  priority: fc.nat({ max: 1 }),
  maxCrashes: fc.constantFrom(null, 1, 2),
  payload: index,
  delayMs: fc.option(waits, { freq: 1 }),
  dedupe,
});

const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("enqueue" as const),
      jobs: fc.array(job, { minLength: 1, maxLength: 3 }),
    }),
  },
  {
    weight: 16,
    arbitrary: fc.record({
      do: fc.constant("claim" as const),
      queue: fc.constantFrom(0, 0, 1),
      kinds: fc.constantFrom(0, 1, 2, 2, 2),
      limit: fc.integer({ min: 1, max: 3 }),
      leaseMs: waits,
    }),
  },
  { weight: 1, arbitrary: fc.constant({ do: "claimQuarantined" as const }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("renew" as const), fence, leaseMs: waits }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("finish" as const),
      fence,
      state: fc.constantFrom("succeeded" as const, "dead" as const, "cancelled" as const),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("requeue" as const),
      fence,
      how: fc.constantFrom(
        "retry" as const,
        "retry at once" as const,
        "snooze" as const,
        "release" as const,
        "park" as const,
        "park for a time" as const,
      ),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("suspend" as const),
      fence,
      awaits: fc.option(signalName, { freq: 2 }),
      untilMs: fc.constantFrom(50_000, 50_000, 650_000),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("suspend" as const), fence, awaits: signalName, untilMs: none }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("receive" as const), fence, awaits: signalName }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("signal" as const), job: index, name: signalName }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("again" as const), fence, delayMs: waits }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("change" as const),
      job: index,
      payload: fc.option(index),
      delayMs: fc.option(fc.constantFrom(0, 50_000, 250_000), { freq: 1 }),
      priority: fc.option(fc.nat({ max: 2 })),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constantFrom(
        "cancel" as const,
        "replay" as const,
        "replay" as const,
        "runNow" as const,
        "complete" as const,
      ),
      job: index,
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constantFrom("rescue" as const, "promote" as const, "promote" as const, "deliver" as const),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("tick" as const), ms: ticks }) },
);

export const commandLists = fc.array(command, { minLength: 65, maxLength: 75, size: "max" });
