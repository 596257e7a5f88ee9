import { useEffect, useState } from "react";
import type { Count } from "stint/inspect";
import { api, type JobsFilter } from "../../api.ts";
import { stateOrder } from "../../components/state-mark.tsx";
import type { Action } from "./actions.ts";

/** Continues a count that was capped, request after request, as long as the dialog is open. With a `next` it is not at its end. */
export function useCountOn(begun: Count | undefined, action: Action, filter: JobsFilter): Count | undefined {
  const [counted, setCounted] = useState<{ begun: Count; so: Count }>();
  useEffect(() => {
    if (begun === undefined || !begun.capped) return undefined;
    const stop = new AbortController();
    const states = [filter.state ?? stateOrder].flat().filter((state) => action.states.includes(state));
    const countOn = async (): Promise<void> => {
      let so = begun;
      while (so.capped && so.next !== undefined && !stop.signal.aborted) {
        const further = await api.count({ ...filter, state: states, after: so.next }, stop.signal);
        so = { ...further, count: so.count + further.count };
        if (!stop.signal.aborted) setCounted({ begun, so });
      }
    };
    // What was counted until then stays: at least so many.
    countOn().catch(() =>
      setCounted((last) => ({ begun, so: { count: (last?.so ?? begun).count, capped: true } })),
    );
    return () => stop.abort();
  }, [begun, action, filter]);
  return counted?.begun === begun ? counted?.so : begun;
}
