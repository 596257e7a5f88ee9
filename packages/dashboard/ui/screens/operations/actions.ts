import type { JobState } from "stint";
import type { BulkAction } from "stint/inspect";

/** What can be done to jobs, in the words of the screen. */
export type Action = {
  readonly name: BulkAction;
  readonly verb: string;
  readonly done: string;
  /** What it means, before somebody does it. */
  readonly means: string;
  /** The states in which it can be done. */
  readonly states: readonly JobState[];
  /** Cannot be taken back by itself. */
  readonly danger: boolean;
  readonly needsReason: boolean;
};

export const actions: Record<BulkAction, Action> = {
  "run-now": {
    name: "run-now",
    verb: "Run now",
    done: "made ready",
    means: "Jobs that wait for their time, for their backoff or are parked become ready at once.",
    states: ["scheduled", "retrying", "parked"],
    danger: false,
    needsReason: false,
  },
  replay: {
    name: "replay",
    verb: "Replay",
    done: "replayed",
    means: "Dead and cancelled jobs are sent round again as a new run, with all their attempts.",
    states: ["dead", "cancelled"],
    danger: false,
    needsReason: true,
  },
  cancel: {
    name: "cancel",
    verb: "Cancel",
    done: "cancelled",
    means: "Waiting jobs end as cancelled. Running jobs are asked to stop, and end when their handler does.",
    states: ["scheduled", "ready", "running", "retrying", "parked"],
    danger: true,
    needsReason: false,
  },
};

export const allActions: readonly Action[] = Object.values(actions);

/** Why somebody may not do it, or null. */
export function whyNot(action: Action, states: readonly JobState[], mayOperate: boolean): string | null {
  if (!mayOperate) return "Your role may look, not act. Ask for the role operate.";
  if (states.length > 0 && !states.some((state) => action.states.includes(state))) {
    return `${action.verb} is for jobs that are ${orList(action.states)}.`;
  }
  return null;
}

function orList(words: readonly string[]): string {
  const last = words.at(-1) ?? "";
  return words.length < 2 ? last : `${words.slice(0, -1).join(", ")} or ${last}`;
}
