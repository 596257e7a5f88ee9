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
    run: async (tools, _, visitor) => ({
      user: visitor.user,
      can: visitor.can,
      filters: filtersFor(visitor, tools.redactor),
      environment: tools.environment,
      schema: tools.inspector().schema,
      version,
      traceUrl: tools.traceUrl,
    }),
  }),
];
