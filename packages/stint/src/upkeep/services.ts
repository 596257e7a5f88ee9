import { admission } from "./admission.ts";
import { claimOrder } from "./claim-order.ts";
import { dependencies } from "./dependencies.ts";
import { deliver } from "./deliver.ts";
import { expire } from "./expire.ts";
import { latest } from "./latest.ts";
import { limits } from "./limits.ts";
import { pauses } from "./pauses.ts";
import { presence } from "./presence.ts";
import { promote } from "./promote.ts";
import { prune } from "./prune.ts";
import { rescue } from "./rescue.ts";
import { schedules } from "./schedules.ts";
import { tallies } from "./tallies.ts";
import type { UpkeepService } from "./upkeep-service.ts";

/** Every upkeep service. A new one is a file and a line here. */
export const services = [
  promote,
  deliver,
  schedules,
  expire,
  rescue,
  presence,
  pauses,
  latest,
  claimOrder,
  limits,
  admission,
  dependencies,
  tallies,
  prune,
] as const satisfies readonly UpkeepService[];

export type ServiceName = (typeof services)[number]["name"];
