import { InvalidOptionError } from "../errors.ts";
import { checkText } from "../model/names.ts";
import { refuseUnknownKeys } from "../model/options.ts";
import { newId } from "../runtime/new-id.ts";
import type { ChangeAudit } from "../sql/audit.ts";
import type { ActOptions } from "./jobs.ts";

/**
 * The audit entry of a change that needs a reason. From JavaScript the options may be missing.
 *
 * @throws {InvalidOptionError} An option is unknown or cannot work, or no reason is given.
 */
export function auditOf(
  what: string,
  options: ActOptions = {},
  defaultActor: string,
  also: readonly string[] = [],
): ChangeAudit {
  refuseUnknownKeys(what, options, ["actor", "reason", ...also]);
  const { actor = defaultActor, reason } = options;
  if (reason === undefined)
    throw new InvalidOptionError(
      `${what}.reason`,
      "is required: say why, for the people who read the audit later",
    );
  return {
    auditId: newId(),
    actor: checkText(actor, `${what}.actor`),
    reason: checkText(reason, `${what}.reason`),
  };
}
