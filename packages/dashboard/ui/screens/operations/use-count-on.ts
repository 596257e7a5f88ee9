import { useEffect, useState } from "react";
import type { Count } from "stint/inspect";
import { api, type JobsFilter } from "../../api.ts";
import { stateOrder } from "../../components/state-mark.tsx";
import type { Action } from "./actions.ts";

/** Continues a capped count with further requests while the dialog is open. A `next` means that the count is incomplete. */
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
    // The count so far stays, as a lower bound.
    countOn().catch(() =>
      setCounted((last) => ({ begun, so: { count: (last?.so ?? begun).count, capped: true } })),
    );
    return () => stop.abort();
  }, [begun, action, filter]);
  return counted?.begun === begun ? counted?.so : begun;
}
