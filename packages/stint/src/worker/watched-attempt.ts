import type { ExtendableAttempt } from "./extend.ts";
import type { Handler } from "./handler.ts";
import type { AttemptOfProgress } from "./progress.ts";
import type { AttemptOfSteps } from "./steps.ts";

type Watchable = ExtendableAttempt & { readonly aborted: Error | undefined };

/** The attempt, as its steps and reports see it. */
export function watched(attempt: Watchable, { definition }: Handler): AttemptOfSteps & AttemptOfProgress {
  return {
    job: attempt.job,
    signals: definition.signals,
    get aborted() {
      return attempt.aborted;
    },
    get over() {
      return attempt.over;
    },
    onActivity: () => attempt.onActivity(),
  };
}
