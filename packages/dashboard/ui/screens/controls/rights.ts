import type { Rights } from "../../api.ts";

/** Why this role cannot change a control; null: it can. */
export function viewOnly({ operate }: Rights): string | null {
  return operate ? null : "Your role is view only. Ask for the role operate.";
}
