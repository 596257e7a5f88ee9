import type { Transition } from "./state.ts";

/** How jobs come to wait for a place within a limit, or for their turn, and how they go on. A part of `transitions`. */
export const limitTransitions: readonly Transition[] = [
  {
    from: ["absent"],
    to: "parked",
    move: "enqueue",
    when: "enqueued with an ordered key, behind another job",
    by: "client, SQL",
    park: ["limit"],
  },
  {
    from: ["running"],
    to: "parked",
    move: "take-places",
    when: "claimed, and a limit that it is under is full: `attempts − 1`, nothing is logged",
    by: "its worker, fenced",
    park: ["limit"],
  },
  {
    from: ["running"],
    to: "parked",
    move: "take-places",
    when: "claimed to be run alone, and a limit that it is under is full",
    by: "its worker, fenced",
    park: ["quarantine"],
  },
  {
    from: ["ready"],
    to: "parked",
    move: "take-places",
    when: "the job before it in its queue met a full limit that it is under, too",
    by: "the worker of that job",
    park: ["limit"],
  },
  {
    from: ["parked"],
    to: "ready",
    move: "follow-ups",
    when: "a place of the limit that it waits for is free, or its turn in an ordered key has come",
    by: "the statement that frees the place",
    park: ["limit"],
  },
  {
    from: ["parked"],
    to: "scheduled",
    move: "follow-ups",
    when: "its turn in an ordered key has come, and it has a later time",
    by: "the statement that frees the place",
    park: ["limit"],
  },
  {
    from: ["parked"],
    to: "ready",
    move: "tend-limits",
    when: "the same, where the statement that freed the place met a lock; or the limit was raised",
    by: "any worker",
    park: ["limit"],
  },
  {
    from: ["parked"],
    to: "scheduled",
    move: "tend-limits",
    when: "the same, and it has a later time",
    by: "any worker",
    park: ["limit"],
  },
];
