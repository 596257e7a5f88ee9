import type { QueueHealth } from "stint/inspect";
import { number } from "./format.ts";

type Slots = Pick<QueueHealth["slots"], "busy" | "total"> & { readonly ahead?: number };

/**
 * Jobs in slots, and as text those without a slot: claimed ahead and waiting for one, or on a draining worker. Counted
 * together, they would read as 14 of 10 slots.
 */
export function running(depth: { readonly running: number }, slots: Slots): { now: number; beside: string } {
  if (slots.total === 0) return { now: depth.running, beside: "" };
  const ahead = slots.ahead ?? Math.max(0, depth.running - slots.busy);
  const draining = Math.max(0, depth.running - slots.busy - ahead);
  const words = [
    ahead > 0 ? `${number(ahead)} waiting for a slot` : "",
    draining > 0 ? `${number(draining)} on draining workers` : "",
  ];
  return { now: slots.busy, beside: words.filter((text) => text !== "").join(", ") };
}
