/** A queue against its target, in one word. */
import type { QueueHealth } from "stint/inspect";
import type { Wire } from "./api.ts";
import { duration } from "./format.ts";

export type Standing = "ok" | "soon" | "late";

/** An operator can still act within this time. */
const soonMs = 15 * 60_000;

type Measured = Pick<Wire<QueueHealth>, "breachInMs" | "oldestReadyMs" | "targetMs">;

export function standingOf({ breachInMs, oldestReadyMs, targetMs }: Measured): Standing {
  if (breachInMs === 0 || (oldestReadyMs ?? 0) > targetMs) return "late";
  return breachInMs !== null && breachInMs <= soonMs ? "soon" : "ok";
}

/** The word and what it means: `late`, `in 4 min 10 s`, `ok`. */
export function standingWords(queue: Measured): { word: Standing; says: string } {
  const word = standingOf(queue);
  if (word === "late") {
    const over = (queue.oldestReadyMs ?? 0) - queue.targetMs;
    return { word, says: over > 0 ? `${duration(over)} past its target` : "past its target" };
  }
  if (queue.breachInMs === null) return { word, says: "on track" };
  return { word, says: `will miss its target in ${duration(queue.breachInMs)}` };
}
