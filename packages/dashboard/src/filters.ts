/** Which filters a visitor may use. */
import { jobFilterKeys, type JobFilter } from "stint/inspect";
import type { Visitor } from "./access.ts";
import { Problem } from "./problem.ts";
import type { Redactor } from "./redact.ts";

type FilterKey = (typeof jobFilterKeys)[number];

/** Shown to every role as they are. A filter that is not listed here is refused where anything is redacted. */
const open: ReadonlySet<FilterKey> = new Set(["state", "kind", "queue", "since", "until"] as const);

/**
 * A search reads values as they are stored. Whether it finds a job, and how many, confirms a guess at a redacted value: a key, tag
 * or tenant as a whole, an error letter by letter. So where anything is redacted, those filters need the right to see payloads.
 */
export function filtersFor(visitor: Visitor, redactor: Redactor): readonly FilterKey[] {
  return !redactor.hides || visitor.can.payloads
    ? jobFilterKeys
    : jobFilterKeys.filter((key) => open.has(key));
}

/** @throws {Problem} The visitor may not search by something in the filter. */
export function requireSearchable(filter: JobFilter, visitor: Visitor, redactor: Redactor): void {
  const allowed = filtersFor(visitor, redactor);
  const refused = jobFilterKeys.filter((key) => filter[key] !== undefined && !allowed.includes(key));
  if (refused.length === 0) return;
  throw new Problem(
    403,
    "NOT_ALLOWED",
    `Your role may not search by ${refused.join(" or ")}: some values are redacted, and a search would confirm a guess at them.`,
    { hint: `Search by ${allowed.join(", ")}, or ask for the right to see payloads.` },
  );
}

/** The part of a filter that the visitor may use and therefore see. */
export function knownFilter(filter: JobFilter, visitor: Visitor, redactor: Redactor): JobFilter {
  const allowed: readonly string[] = filtersFor(visitor, redactor);
  return Object.fromEntries(Object.entries(filter).filter(([key]) => allowed.includes(key)));
}
