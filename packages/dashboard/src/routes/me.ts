import { version } from "stint";
import { filtersFor } from "../filters.ts";
import { nothing } from "../input.ts";
import { route } from "../route.ts";

export const meRoutes = [
  route({
    method: "GET",
    path: "me",
    right: "view",
    parse: nothing,
    run: async ({ environment, traceUrl, redactor }, _, visitor) => ({
      user: visitor.user,
      can: visitor.can,
      filters: filtersFor(visitor, redactor),
      environment,
      version,
      traceUrl,
    }),
  }),
];
