import { chosenStates, type FilterValues } from "../../components/filter-bar.tsx";
import { momentOf } from "../../components/filter-bar-time.tsx";
import type { JobsFilter } from "../../api.ts";
import { text } from "../../url.ts";

/** The URL parameters of a list of jobs. */
export const jobsSearch = {
  state: text,
  kind: text,
  queue: text,
  tenant: text,
  key: text,
  tag: text,
  error: text,
  /** The fingerprint of a group of dead jobs. */
  fingerprint: text,
  since: text,
  until: text,
  /** The cursor of the page. */
  after: text,
};

/** The filter sent to the server. Relative spans are resolved against `now`. */
export function toFilter(values: FilterValues, now: number): JobsFilter {
  const { kind, queue, tenant, key, tag, error, fingerprint } = values;
  const state = chosenStates(values["state"]);
  const since = momentOf(values["since"], now);
  const until = momentOf(values["until"], now);
  return {
    ...(state.length > 0 && { state }),
    ...(kind !== undefined && { kind }),
    ...(queue !== undefined && { queue }),
    ...(tenant !== undefined && { tenant }),
    ...(key !== undefined && { key }),
    ...(tag !== undefined && { tag }),
    ...(error !== undefined && { error }),
    ...(fingerprint !== undefined && { fingerprint }),
    ...(since !== undefined && { since }),
    ...(until !== undefined && { until }),
  };
}
