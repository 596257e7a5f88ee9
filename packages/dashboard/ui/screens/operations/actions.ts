import type { JobState } from "stint";
import type { BulkAction } from "stint/inspect";

/** Actions on jobs, with their texts. */
export type Action = {
  readonly name: BulkAction;
  readonly verb: string;
  readonly done: string;
  /** The explanation shown before the action. */
  readonly means: string;
  /** The states that allow it. */
  readonly states: readonly JobState[];
  /** Cannot be undone. */
  readonly danger: boolean;
  readonly needsReason: boolean;
};

export const actions: Record<BulkAction, Action> = {
  "run-now": {
    name: "run-now",
    verb: "Run now",
    done: "made ready",
    means: "Scheduled, retrying and parked jobs become ready now.",
    states: ["scheduled", "retrying", "parked"],
    danger: false,
    needsReason: false,
  },
  replay: {
    name: "replay",
    verb: "Replay",
    done: "replayed",
    means: "Dead and cancelled jobs are requeued with a fresh set of attempts.",
    states: ["dead", "cancelled"],
    danger: false,
    needsReason: true,
  },
  cancel: {
    name: "cancel",
    verb: "Cancel",
    done: "cancelled",
    means:
      "Waiting jobs end as cancelled. Running jobs get a cancel request and end when their handler does.",
    states: ["scheduled", "ready", "running", "retrying", "parked"],
    danger: true,
    needsReason: false,
  },
};

export const allActions: readonly Action[] = Object.values(actions);

/** Why the action is refused; null if it is allowed. */
export function whyNot(action: Action, states: readonly JobState[], mayOperate: boolean): string | null {
  if (!mayOperate) return "Your role is view only. Ask for the role operate.";
  if (states.length > 0 && !states.some((state) => action.states.includes(state))) {
    return `${action.verb} is for jobs that are ${orList(action.states)}.`;
  }
  return null;
}

function orList(words: readonly string[]): string {
  const last = words.at(-1) ?? "";
  return words.length < 2 ? last : `${words.slice(0, -1).join(", ")} or ${last}`;
}
