import { command } from "../model/command.ts";
import { formatCount, formatMs } from "../model/figures.ts";
import type { NearPause, NearPlace } from "../sql/explain-job.ts";
import { blocks, notes, some, type Facts, type Finding } from "./findings.ts";

// What flow control adds to the reasons why a job does not run: pauses, limits, admission and expiry.

const mostCounted = 1_000;

/** Each pause that holds the job back: of what, since when, by whom, for how long and why. */
export function pauseFindings({ schema, around: { pauses } }: Facts): Finding[] {
  return pauses.map((pause) =>
    blocks(
      pauseText(pause),
      `To let it run: \`${command(schema, "resume", pause.scope, pause.name, "--reason", "…")}\`.`,
    ),
  );
}

function pauseText({ scope, name, reason, pausedBy, pausedMs, leftMs }: NearPause): string {
  const until = leftMs === null ? "until it is resumed" : `for another ${formatMs(Math.max(0, leftMs))}`;
  return `Its ${scope} is paused (${name}) since ${formatMs(Math.max(0, pausedMs))} by ${pausedBy}, ${until}: ${reason}`;
}

/** The key at which the job waits for a place, and the jobs that hold its places. */
export function limitFindings({ schema, around: { places } }: Facts): Finding[] {
  return places.flatMap((place) => (place.holds ? [] : waitsAt(schema, place)));
}

function waitsAt(schema: string, { key, max, held, ahead, holders }: NearPlace): Finding[] {
  const ordered = key.startsWith("order:") || key.startsWith("pass:");
  const before = ahead === 0 ? "" : ` ${some(ahead, mostCounted)} before it.`;
  const dead = holders.find(({ state }) => state === "dead");
  const text = ordered
    ? `It waits for its turn of ${key}: ${held === 0 ? "no job has it now" : "another job has it"}.${before}`
    : `It waits for a place of ${key}: ${formatCount(held)} of ${max === null ? "any number" : formatCount(max)} are in use.${before}`;
  const advice =
    ordered && dead !== undefined
      ? `Job ${dead.id} is dead and blocks the key: replay it, or let the others pass: \`${command(schema, "limits", "pass", key, "--reason", "…")}\`.`
      : `To see the key: \`${command(schema, "limits", "keys", "--name", key)}\`.`;
  return [
    blocks(text, advice),
    ...holders.map(({ id, state }) => notes(`Job ${id} holds a place: ${state ?? "it was deleted"}.`)),
  ];
}

/** Admission may have chosen the time of a job that has not run yet. Its row does not say whether the caller did. */
export function deferFindings({ job, at, around: { defers } }: Facts): Finding[] {
  if (defers === null || job.attempts > 0 || job.epoch > 0 || job.runAt <= at) return [];
  return [
    notes(
      `Queue ${job.queue} defers new jobs while it is full (admission of ${defers}), so admission may have chosen this time.`,
    ),
  ];
}

/** When a waiting job is cancelled because it would be too late. */
export function expiryFindings({ job: { expiresAt }, at }: Facts): Finding[] {
  if (expiresAt === null) return [];
  const leftMs = expiresAt.getTime() - at.getTime();
  return [
    leftMs > 0
      ? notes(
          `It expires in ${formatMs(leftMs)}, at ${expiresAt.toISOString()}: it is cancelled then if it has not started.`,
        )
      : blocks(`It expired ${formatMs(-leftMs)} ago: a worker cancels it at any moment.`),
  ];
}
