import { Problem } from "./problem.ts";
import type { Environment, Input } from "./route.ts";

/** Prevents actions on many jobs in production by mistake, or in the wrong window: the name of the environment must be sent. */
export function requireConfirmation(
  body: Input["body"],
  environment: Environment | null,
  what: "Bulk operations" | "Cancelling a flow" | "Changes of controls",
): void {
  if (environment === null || !environment.production || body["confirm"] === environment.name) return;
  throw new Problem(400, "CONFIRMATION_NEEDED", `${what} in production must be confirmed.`, {
    hint: `Send confirm: ${JSON.stringify(environment.name)}, the name of this environment.`,
  });
}
