import { makeIdleCheck } from "#stint/sql/idle-check.js";
import { services } from "#stint/upkeep/services.js";
import { idleCheckParts } from "#stint/upkeep/upkeep.js";

/** The idle check as a worker sends it, with the parts of all upkeep services. */
export const idleCheck = makeIdleCheck(idleCheckParts(services));
