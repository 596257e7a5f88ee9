import type { Operation } from "stint/inspect";
import type { Wire } from "../../api.ts";
import { number } from "../../format.ts";
import { actions } from "./actions.ts";
import { counted } from "./count.ts";
import "./operations.css";

/** Progress as a bar and as text. */
export function Progress({ operation }: { operation: Wire<Operation> }) {
  const { matched, done, skipped, changed, state, action } = operation;
  const seen = done + skipped;
  const whole = Math.max(matched.count, seen, 1);
  const share = state === "finished" ? 1 : seen / whole;
  return (
    <div className="progress" data-state-of={state}>
      <div
        className="progress-bar"
        role="progressbar"
        aria-label={`${actions[action].verb}: progress`}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.floor(share * 100)}
      >
        <span style={{ inlineSize: `${share * 100}%` }} />
      </div>
      <p className="progress-words">
        <strong>{number(done)}</strong> {actions[action].done}
        {changed !== null && changed > 0 ? (
          <>
            , <strong>{number(changed)}</strong> had changed meanwhile
          </>
        ) : null}{" "}
        <span className="muted">of {counted(matched)} that matched</span>
      </p>
    </div>
  );
}
