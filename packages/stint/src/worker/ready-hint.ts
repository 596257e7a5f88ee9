/** A wake for ready jobs of a queue, and what it means for one worker. */
export type ReadyHint = {
  readonly queue: string;
  /** When this worker should look for the jobs; null: others do. */
  readonly inMs: number | null;
  /** Whether this worker wakes the others if it has no room. */
  readonly passesOn: boolean;
};

/**
 * When the workers that are not woken at once look whether the jobs were taken: the first of them, the second, and one in sleep mode. The workers
 * that were woken may be dead or paused, which the database does not know for a minute.
 */
const laterMs = [250, 1_000, 2_000] as const;

/** The part of a worker's id that wakes name. */
export function wakeTag(workerId: string): string {
  return workerId.slice(-6);
}

/** Read `ready:<queue>`, for every worker, or `ready/<first>|<later>:<queue>`, for the workers it names. Undefined: the wake is about something else. */
export function readReadyHint(hint: string, tag: string): ReadyHint | undefined {
  if (hint.startsWith("ready:")) return { queue: hint.slice("ready:".length), inMs: 0, passesOn: false };
  if (!hint.startsWith("ready/")) return undefined;
  const end = hint.indexOf(":");
  const [first = "", later = ""] = hint.slice("ready/".length, end).split("|");
  const queue = hint.slice(end + 1);
  const place = first.split(",").indexOf(tag);
  if (place >= 0) return { queue, inMs: 0, passesOn: place === 0 };
  return { queue, inMs: laterMs[later.split(",").indexOf(tag)] ?? null, passesOn: false };
}
