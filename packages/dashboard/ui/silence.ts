import type { WorkerView } from "stint/inspect";
import type { Wire } from "./api.ts";

/** Longer than this without a word, and something is wrong with it: it speaks every 25 seconds unless it is asleep. */
const silentAfterMs = 60_000;

/** Killed, frozen or cut off. What it held is rescued when the leases run out; its slots are missing until it is back. */
export function isSilent({ silentMs, asleep }: Pick<Wire<WorkerView>, "silentMs" | "asleep">): boolean {
  return silentMs > silentAfterMs && !asleep;
}
