import type { AttemptOutcome } from "stint";
import type { JobResponse } from "../../api.ts";

/** One attempt on the time axis, in milliseconds since the epoch: the wait before it, and its run. */
export type Lane = {
  readonly epoch: number | null;
  /** The attempt's number, as the handler sees it. Null: not started. */
  readonly attempt: number | null;
  readonly waitFrom: number;
  /** Null: not started. */
  readonly start: number | null;
  /** Null: not ended. */
  readonly end: number | null;
  readonly outcome: AttemptOutcome | "running" | "waiting";
  readonly worker: string | null;
  /** The number of earlier claims without a lane: released before they started, or no longer in the attempt log. */
  readonly missing: number;
};

/** A job's attempts as lanes, oldest first: every ended attempt, then the current one. */
export function lanesOf({
  job,
  audit,
  attemptOfEpoch = {},
}: Pick<JobResponse, "job" | "audit" | "attemptOfEpoch">): Lane[] {
  const replays = audit.filter(({ action }) => action === "replay").map(({ at }) => Date.parse(at));
  const lanes: Lane[] = [];
  let waitFrom = Date.parse(job.createdAt);
  let epoch = 0;

  for (const attempt of job.log) {
    const end = Date.parse(attempt.endedAt);
    const start = attempt.startedAt === null ? end : Date.parse(attempt.startedAt);
    lanes.push({
      epoch: attempt.epoch,
      attempt: attemptOfEpoch[attempt.epoch] ?? null,
      waitFrom: Math.min(lastBefore(replays, start, waitFrom), start),
      start,
      end,
      outcome: attempt.outcome,
      worker: attempt.worker,
      missing: Math.max(0, attempt.epoch - epoch - 1),
    });
    waitFrom = end;
    epoch = attempt.epoch;
  }

  const now = { end: null, missing: 0 } as const;
  if (job.state === "running") {
    const start = job.claimedAt === null ? waitFrom : Date.parse(job.claimedAt);
    const since = Math.min(lastBefore(replays, start, waitFrom), start);
    lanes.push({
      ...now,
      epoch: job.epoch,
      attempt: job.attempts,
      waitFrom: since,
      start,
      outcome: "running",
      worker: job.worker,
    });
  } else if (job.finishedAt === null) {
    const since = lastBefore(replays, Infinity, waitFrom);
    lanes.push({
      ...now,
      epoch: null,
      attempt: null,
      waitFrom: since,
      start: null,
      outcome: "waiting",
      worker: null,
    });
  }
  return lanes;
}

/** A dead job does not wait. After a replay, the wait starts at the replay. */
function lastBefore(replays: readonly number[], start: number, otherwise: number): number {
  return replays.findLast((at) => at <= start && at > otherwise) ?? otherwise;
}

/** A shortened part of the time axis, in which nothing runs. */
export type Cut = { readonly from: number; readonly to: number };

/** The time axis. `share` maps a time to 0 … 1. */
export type Axis = {
  readonly from: number;
  readonly to: number;
  readonly cuts: readonly Cut[];
  readonly share: (at: number) => number;
};

/** A wait is drawn at most this many times as long as all runs together, so that the runs stay visible. */
const longest = 2;

/** Covers the whole timeline. Shortened waits keep every attempt visible, also after a replay a week later. */
export function axisOf(lanes: readonly Lane[], now: number): Axis {
  const points = lanes.flatMap(({ waitFrom, start, end }) => [waitFrom, start ?? now, end ?? now]);
  const moments = [...new Set(points)].sort((one, other) => one - other);
  const from = moments[0] ?? now;
  const to = Math.max(from + 1, moments.at(-1) ?? now);

  const stretches = moments.slice(1).map((end, index) => ({ from: moments[index] ?? end, to: end }));
  const runs = (stretch: Cut): boolean =>
    lanes.some(({ start, end }) => start !== null && start < stretch.to && (end ?? now) > stretch.from);
  const running = stretches.filter(runs).reduce((sum, stretch) => sum + stretch.to - stretch.from, 0);
  const cuts = stretches.filter(
    (stretch) => running > 0 && !runs(stretch) && stretch.to - stretch.from > longest * running,
  );

  const drawn = (at: number): number =>
    cuts.reduce((length, cut) => {
      const passed = Math.min(Math.max(at - cut.from, 0), cut.to - cut.from);
      return length - passed + (passed / (cut.to - cut.from)) * longest * running;
    }, at - from);
  const whole = drawn(to);
  return { from, to, cuts, share: (at) => drawn(Math.min(Math.max(at, from), to)) / whole };
}

const steps = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5,
  72e5, 108e5, 216e5, 432e5, 864e5, 1728e5, 6048e5, 2592e6,
];

/** Ticks at round distances from the start, at most `most` of them. */
export function ticksOf(length: number, most: number): number[] {
  const step = steps.find((each) => length / each <= most) ?? length;
  const ticks: number[] = [];
  for (let at = step; at <= length; at += step) ticks.push(at);
  return ticks;
}
