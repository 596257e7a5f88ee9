/** A queue against its target, in one word. */
import type { QueueHealth } from "stint/inspect";
import type { Wire } from "./api.ts";
import { duration } from "./format.ts";

export type Standing = "ok" | "soon" | "late" | "paused";

/** An operator can still act within this time. */
const soonMs = 15 * 60_000;

type Measured = Pick<Wire<QueueHealth>, "breachInMs" | "oldestReadyMs" | "targetMs"> &
  // Servers of an older version do not send it.
  Partial<Pick<Wire<QueueHealth>, "paused">>;

export function standingOf({ breachInMs, oldestReadyMs, targetMs, paused }: Measured): Standing {
  if (paused !== null && paused !== undefined) return "paused";
  if (breachInMs === 0 || (oldestReadyMs ?? 0) > targetMs) return "late";
  return breachInMs !== null && breachInMs <= soonMs ? "soon" : "ok";
}

/** The word and what it means: `late`, `in 4 min 10 s`, `ok`, `paused`. */
export function standingWords(queue: Measured): { word: Standing; detail: string } {
  const word = standingOf(queue);
  if (word === "paused") return { word, detail: "no further job of it starts" };
  if (word === "late") {
    const over = (queue.oldestReadyMs ?? 0) - queue.targetMs;
    return { word, detail: over > 0 ? `${duration(over)} past its target` : "past its target" };
  }
  if (queue.breachInMs === null) return { word, detail: "on track" };
  return { word, detail: `will miss its target in ${duration(queue.breachInMs)}` };
}
