/** Strict parsing of input, with messages that name the mistake. */
import { jobStates, type JobState } from "stint";
import { jobFilterKeys, type BulkAction, type JobFilter, type PreviewedSet } from "stint/inspect";
import { badRequest } from "./problem.ts";
import type { Input } from "./route.ts";

const actions = ["cancel", "run-now", "replay"] as const satisfies readonly BulkAction[];

const textKeys = ["kind", "queue", "tenant", "key", "tag", "error", "fingerprint"] as const;

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** For routes without input. */
export function nothing(): void {}

export function idOf(input: Input): string {
  const { id = "" } = input.params;
  if (!uuid.test(id)) throw badRequest("The id in the address must be a UUID.");
  return id.toLowerCase();
}

/** The filter in the query of an address: states separated by commas, times in ISO 8601. Empty means absent. */
export function filterOf(query: URLSearchParams): JobFilter {
  const given = jobFilterKeys.flatMap((key) => {
    const text = query.get(key);
    if (text === null || text === "") return [];
    return [[key, key === "state" ? text.split(",") : text]];
  });
  return readFilter(Object.fromEntries(given) as Record<string, unknown>);
}

/** Where a page or a count continues. */
export function afterOf(query: URLSearchParams): { readonly after?: string } {
  const after = query.get("after") ?? "";
  return after === "" ? {} : { after: textOf(after, "after") };
}

/** A name of a kind or queue in the query of an address, if there is one. */
export function namedIn<const Key extends "kind" | "queue">(
  query: URLSearchParams,
  key: Key,
): { readonly [name in Key]?: string } {
  const text = query.get(key) ?? "";
  return (text === "" ? {} : { [key]: textOf(text, key, 128) }) as { readonly [name in Key]?: string };
}

/** The filter of a bulk operation. It must name something: an empty one would touch every job there is. */
export function bulkFilterOf(body: Input["body"]): JobFilter {
  const given = body["filter"];
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw badRequest('filter must be an object, such as { "state": ["dead"] }.');
  const filter = readFilter(given as Record<string, unknown>);
  if (Object.keys(filter).length === 0)
    throw badRequest(
      "filter must name at least one thing, such as a state.",
      "An empty filter would touch every job.",
    );
  return filter;
}

/** The preview that the operation is based on: its count and time. */
export function previewOf(body: Input["body"]): PreviewedSet | undefined {
  const { preview } = body;
  if (preview === undefined || preview === null) return undefined;
  const { asOf, matched } = preview as { asOf?: unknown; matched?: { count?: unknown; capped?: unknown } };
  const count = matched?.count;
  if (typeof count !== "number" || !Number.isSafeInteger(count) || count < 0 || count >= 2 ** 31)
    throw badRequest("preview must be what operations/preview returned: { asOf, matched }.");
  dateOf(asOf, "preview.asOf");
  return { asOf: asOf as string, matched: { count, capped: matched?.capped === true } };
}

function readFilter(given: Readonly<Record<string, unknown>>): JobFilter {
  const unknown = Object.keys(given).find((key) => !(jobFilterKeys as readonly string[]).includes(key));
  if (unknown !== undefined)
    throw badRequest(`The filter takes ${jobFilterKeys.join(", ")}, and nothing else.`);
  const filter: { -readonly [Key in keyof JobFilter]: JobFilter[Key] } = {};
  if (given["state"] !== undefined) filter.state = statesOf(given["state"]);
  for (const key of textKeys) if (given[key] !== undefined) filter[key] = textOf(given[key], key);
  if (given["since"] !== undefined) filter.since = dateOf(given["since"], "since");
  if (given["until"] !== undefined) filter.until = dateOf(given["until"], "until");
  return filter;
}

function statesOf(value: unknown): JobState[] {
  const named = [value].flat();
  if (named.length === 0 || named.length > jobStates.length) throw badRequest(stateRule);
  return named.map((name) => {
    const state = jobStates.find((one) => one === name);
    if (state === undefined) throw badRequest(stateRule);
    return state;
  });
}

const stateRule = `state must be one or more of ${jobStates.join(", ")}.`;

export function textOf(value: unknown, name: string, max = 512): string {
  if (typeof value !== "string" || value === "" || value.length > max)
    throw badRequest(`${name} must be a text of 1 to ${max} characters.`);
  // Postgres cannot store NUL; the other control characters could forge lines where the text is shown.
  if (/[\p{Cc}\p{Cs}]/u.test(value)) throw badRequest(`${name} must not contain control characters.`);
  return value;
}

export function reasonOf(body: Input["body"], needed: boolean): string | undefined {
  const { reason } = body;
  if (reason === undefined || reason === null || reason === "") {
    if (needed) throw badRequest("reason is required: say why, for the people who read the audit later.");
    return undefined;
  }
  return textOf(reason, "reason");
}

export function dateOf(value: unknown, name: string): Date {
  const date =
    typeof value === "string" && /^\d{4}-\d\d-\d\d/.test(value) && value.length <= 40
      ? new Date(value)
      : undefined;
  if (date === undefined || Number.isNaN(date.getTime()))
    throw badRequest(`${name} must be a time such as 2026-01-31T08:00:00Z.`);
  return date;
}

export function limitOf(
  query: URLSearchParams,
  { fallback, max, name = "limit" }: { fallback: number; max: number; name?: string },
): number {
  const text = query.get(name);
  if (text === null || text === "") return fallback;
  const limit = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (limit < 1 || limit > max) throw badRequest(`${name} must be a whole number from 1 to ${max}.`);
  return limit;
}

export function oneOf<const T extends string>(
  value: string | null,
  name: string,
  allowed: readonly T[],
): T | undefined {
  if (value === null || value === "") return undefined;
  const found = allowed.find((word) => word === value);
  if (found === undefined) throw badRequest(`${name} must be one of ${allowed.join(", ")}.`);
  return found;
}

export function actionOf(body: Input["body"]): BulkAction {
  const action = actions.find((one) => one === body["action"]);
  if (action === undefined) throw badRequest(`action must be one of ${actions.join(", ")}.`);
  return action;
}
