/** Every route of the API. To add one, add a file to this folder and list it here. */
import type { Route } from "../route.ts";
import { controlRoutes } from "./controls.ts";
import { capacityRoutes } from "./capacity.ts";
import { deadRoutes } from "./dead.ts";
import { eventRoutes } from "./events.ts";
import { flowRoutes } from "./flows.ts";
import { jobRoutes } from "./jobs.ts";
import { overviewRoutes } from "./overviews.ts";
import { meRoutes } from "./me.ts";
import { operationRoutes } from "./operations.ts";
import { scheduleRoutes } from "./schedules.ts";

/** Routes with a fixed segment come before routes with a parameter in its place. */
export const routes: readonly Route[] = [
  ...meRoutes,
  ...overviewRoutes,
  ...capacityRoutes,
  ...jobRoutes,
  ...deadRoutes,
  ...operationRoutes,
  ...scheduleRoutes,
  ...flowRoutes,
  ...controlRoutes,
  ...eventRoutes,
];
