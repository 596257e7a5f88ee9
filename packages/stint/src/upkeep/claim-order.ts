import { anyClaimOrder, tendClaimOrder } from "../sql/claim-order.ts";
import { Service } from "./service-loop.ts";
import type { RunningService, UpkeepDeps, UpkeepService } from "./upkeep-service.ts";

/** How often to read the settings while there are any: a notification of a change may be lost. */
const everyMs = 1_000;
const restMs = 3_600_000;
const batch = 2_000;

/**
 * Tells the worker which queues are fair or age their jobs, and gives jobs that were enqueued before that their place. A worker whose installation has
 * no such queue sends no statement for them.
 */
export const claimOrder = {
  name: "claim-order",
  idleCheck: anyClaimOrder,
  create,
} as const satisfies UpkeepService;

function create({
  db,
  logger,
  onClaimOrders,
}: Pick<UpkeepDeps, "db" | "logger" | "onClaimOrders">): RunningService {
  let wanted = false;
  const tick = async (): Promise<number> => {
    if (!wanted) return restMs;
    const { nextMs, orders } = await tendClaimOrder(db, batch);
    onClaimOrders(orders);
    wanted = orders.length > 0 || nextMs !== null;
    return wanted ? Math.min(nextMs ?? everyMs, everyMs) : restMs;
  };
  const service = new Service({ name: "claim-order", logger, tick });
  const read = (): void => {
    wanted = true;
    service.wakeIn(0);
  };
  return {
    service,
    onWake: read,
    onIdleCheck: (dueInMs) => {
      if (dueInMs !== null && !wanted) read();
    },
  };
}
