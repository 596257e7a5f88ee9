/** Every state a job can be in. `docs/lifecycle.md` says who makes each transition. */
export const states = [
  "scheduled",
  "ready",
  "running",
  "retrying",
  "parked",
  "succeeded",
  "dead",
  "cancelled",
] as const;

export type JobState = (typeof states)[number];

/** States of jobs that may still run by themselves. They are in the hot table. */
export const liveStates = [
  "scheduled",
  "ready",
  "running",
  "retrying",
  "parked",
] as const satisfies JobState[];

/** States of jobs that ended. They are in the history. */
export const terminalStates = ["succeeded", "dead", "cancelled"] as const satisfies JobState[];

export type LiveState = (typeof liveStates)[number];
export type TerminalState = (typeof terminalStates)[number];

/** Why a job is held back. */
export const parkReasons = [
  "blocked",
  "breaker",
  "budget",
  "limit",
  "version",
  "review",
  "quarantine",
] as const;

export type ParkReason = (typeof parkReasons)[number];

export function isTerminal(state: JobState): state is TerminalState {
  return (terminalStates as readonly JobState[]).includes(state);
}

/** Where a job may go from each state. `absent` is the job that was not enqueued yet. */
export const allowedTransitions: Record<JobState | "absent", readonly JobState[]> = {
  absent: ["scheduled", "ready"],
  scheduled: ["ready", "cancelled"],
  ready: ["running", "scheduled", "cancelled"],
  // Back to ready: released by a stopping worker, or rescued. To scheduled: snoozed.
  running: ["ready", "scheduled", "retrying", "parked", "succeeded", "dead", "cancelled"],
  retrying: ["ready", "cancelled"],
  // To running: a quarantined job is claimed alone, without passing through the common queue.
  parked: ["ready", "running", "dead", "cancelled"],
  succeeded: [],
  // Replay.
  dead: ["ready"],
  cancelled: ["ready"],
};
