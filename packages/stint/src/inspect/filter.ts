import { InvalidOptionError } from "../errors.ts";
import { describe } from "../model/describe.ts";
import { checkNameOrPattern } from "../model/name-pattern.ts";
import { checkText } from "../model/names.ts";
import { refuseUnknownKeys, requireDate, requireOneOf } from "../model/options.ts";
import { states, type JobState } from "../model/state.ts";
import { isUuid } from "../runtime/uuid.ts";
import type { Search } from "../sql/search.ts";
import { jobFilterKeys, type BulkAction, type JobFilter } from "./types.ts";

/** The states that allow each action. */
export const statesFor: Record<BulkAction, readonly JobState[]> = {
  cancel: ["scheduled", "ready", "running", "retrying", "parked"],
  "run-now": ["scheduled", "retrying", "parked"],
  replay: ["dead", "cancelled"],
};

const lowest = "00000000-0000-0000-0000-000000000000";
const highest = "ffffffff-ffff-ffff-ffff-ffffffffffff";

/**
 * Check a filter and convert it to a search: times become ids.
 *
 * @throws {InvalidOptionError} A condition is not valid.
 */
export function toSearch(what: string, filter: JobFilter): Search {
  refuseUnknownKeys(what, filter, jobFilterKeys);
  const { state, kind, queue, tenant, key, tag, error, fingerprint, since, until } = filter;
  const wanted = state === undefined ? states : [state].flat();
  return {
    states: wanted.map((one) => requireOneOf(`${what}.state`, one, states)),
    kind: kind === undefined ? null : checkNameOrPattern(kind, `${what}.kind`),
    queue: queue === undefined ? null : checkNameOrPattern(queue, `${what}.queue`),
    tenant: tenant === undefined ? null : checkText(tenant, `${what}.tenant`),
    key: key === undefined ? null : checkText(key, `${what}.key`),
    tag: tag === undefined ? null : checkText(tag, `${what}.tag`),
    error: error === undefined ? null : checkText(error, `${what}.error`),
    fingerprint: fingerprint === undefined ? null : checkFingerprint(fingerprint, `${what}.fingerprint`),
    from: since === undefined ? lowest : firstIdAt(requireDate(`${what}.since`, since).getTime()),
    before: until === undefined ? highest : firstIdAt(requireDate(`${what}.until`, until).getTime()),
  };
}

/** Whether a search starts at the newest job, so that it is a first page. */
export function isNewest({ before }: Search): boolean {
  return before === highest;
}

/** Whether states, kind and queue are the only conditions of the search. */
export function isWhole({ tenant, key, tag, error, fingerprint, from, before }: Search): boolean {
  const narrowing = [tenant, key, tag, error, fingerprint];
  return from === lowest && before === highest && narrowing.every((value) => value === null);
}

function checkFingerprint(value: unknown, option: string): string {
  if (typeof value === "string" && /^[0-9a-f]{12}$/i.test(value)) return value.toLowerCase();
  throw new InvalidOptionError(
    option,
    `must be the fingerprint of a group of dead jobs, 12 digits from 0-9 and a-f, got ${describe(value)}`,
  );
}

/** The search of a bulk action: only states that allow the action. */
export function toActionSearch(action: BulkAction, filter: JobFilter): Search {
  const allowed = statesFor[requireOneOf("action", action, Object.keys(statesFor) as BulkAction[])];
  const search = toSearch("filter", filter);
  const found = search.states.filter((state) => allowed.includes(state));
  if (found.length > 0) return { ...search, states: found };
  throw new InvalidOptionError(
    "filter.state",
    `is ${search.states.join(", ")}, but ${action} is for jobs that are ${allowed.join(" or ")}`,
  );
}

/** The start of a page: below the id at which the previous page stopped. */
export function toBefore(after: unknown, option = "jobs.after"): string {
  if (isUuid(after)) return after.toLowerCase();
  throw new InvalidOptionError(option, `must be the next of a page of jobs, got ${describe(after)}`);
}

export function earlier(a: string, b: string): string {
  return a < b ? a : b;
}

/** An id below every id made in this millisecond or later, and above all earlier ones. */
export function firstIdAt(ms: number): string {
  const time = Math.min(Math.max(Math.round(ms), 0), 2 ** 48 - 1)
    .toString(16)
    .padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-0000-0000-000000000000`;
}

/** The time in an id, by the clock of the client that made it. */
export function timeOf(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}
