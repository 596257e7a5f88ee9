import { anyClaimOrder, tendClaimOrder } from "../sql/claim-order.ts";
import { readWhileWanted } from "./read-while-wanted.ts";
import type { RunningService, UpkeepDeps, UpkeepService } from "./upkeep-service.ts";

/** How often to read the settings while there are any: a notification of a change may be lost. */
const everyMs = 1_000;
const batch = 2_000;

/**
 * Reports to the worker which queues are fair or age their jobs, and gives jobs that were enqueued before that their place. A worker whose installation has
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
  const read = async (): Promise<number | null> => {
    const { nextMs, orders } = await tendClaimOrder(db, batch);
    onClaimOrders(orders);
    return orders.length > 0 || nextMs !== null ? Math.min(nextMs ?? everyMs, everyMs) : null;
  };
  return readWhileWanted({ name: "claim-order", logger, read });
}
