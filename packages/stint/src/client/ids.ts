import { InvalidOptionError } from "../errors.ts";
import { describe } from "../model/describe.ts";
import { isUuid } from "../runtime/uuid.ts";

/** The id of a job in lower case, as Postgres returns it: an id in capitals would not match its results. */
export function requireId(id: unknown, option = "id"): string {
  if (isUuid(id)) return id.toLowerCase();
  throw new InvalidOptionError(option, `must be the UUID of a job, got ${describe(id)}`);
}

/** The id of what `enqueue` returned, or an id. */
export function idOf(job: { readonly id: string } | string, option: string): string {
  return requireId(typeof job === "string" ? job : (job as { id?: unknown } | undefined)?.id, option);
}
