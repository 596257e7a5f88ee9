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
  | { do: "cancel" | "replay" | "runNow"; job: number }
  | { do: "rescue" | "promote" }
  | { do: "tick"; ms: number };

type Dedupe = { key: number; until: "started" | "finished" | number } | null;
/** A fence: one of those that hold (`stale: false`), or any that was ever given out. */
export type Pick = { stale: boolean; index: number };

export const kinds = ["send", "sync"];
export const queues = ["main", "side"];

// Delays and leases end in 50 s, ticks in full minutes: no two ever meet, however long the commands themselves take.
const waits = fc.constantFrom(50_000, 250_000, 650_000);
const ticks = fc.constantFrom(60_000, 300_000, 900_000);

const index = fc.nat({ max: 1_000 });
const fence = fc.record({ stale: fc.constantFrom(true, false, false), index });
const dedupe = fc.option(
  fc.record({
    key: fc.nat({ max: 2 }),
    until: fc.oneof(fc.constantFrom("started" as const, "finished" as const), waits),
  }),
  { freq: 2 },
);
const job = fc.record({
  kind: fc.nat({ max: 1 }),
  queue: fc.constantFrom(0, 0, 1),
  priority: fc.nat({ max: 1 }),
  maxCrashes: fc.constantFrom(null, 1, 2),
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
    weight: 7,
    arbitrary: fc.record({
      do: fc.constant("claim" as const),
      queue: fc.constantFrom(0, 0, 1),
      kinds: fc.nat({ max: 2 }),
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
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom("cancel" as const, "replay" as const, "runNow" as const),
      job: index,
    }),
  },
  { weight: 5, arbitrary: fc.record({ do: fc.constantFrom("rescue" as const, "promote" as const) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("tick" as const), ms: ticks }) },
);

export const commandLists = fc.array(command, { minLength: 55, maxLength: 65, size: "max" });
