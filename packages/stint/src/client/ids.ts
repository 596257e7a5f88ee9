import { InvalidOptionError } from "../errors.ts";
import { describe } from "../model/describe.ts";
import { isUuid } from "../runtime/uuid.ts";

/** The id of a job, as Postgres writes it: an id in capitals would not be recognised in its answers. */
export function requireId(id: unknown, option = "id"): string {
  if (isUuid(id)) return id.toLowerCase();
  throw new InvalidOptionError(option, `must be the UUID of a job, got ${describe(id)}`);
}
