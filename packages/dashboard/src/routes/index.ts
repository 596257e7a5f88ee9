/** Every route of the API. What a new screen needs is one more file beside this one, and one line here. */
import type { Route } from "../route.ts";
import { deadRoutes } from "./dead.ts";
import { eventRoutes } from "./events.ts";
import { jobRoutes } from "./jobs.ts";
import { overviewRoutes } from "./overviews.ts";
import { meRoutes } from "./me.ts";
import { operationRoutes } from "./operations.ts";

/** Those with a fixed segment stand before those with a parameter in its place. */
export const routes: readonly Route[] = [
  ...meRoutes,
  ...overviewRoutes,
  ...jobRoutes,
  ...deadRoutes,
  ...operationRoutes,
  ...eventRoutes,
];
