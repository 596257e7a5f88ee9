/** Reads of the whole installation: health, stats, kinds, waiting tenants, workers, slow jobs, controls; and the series of the charts. */
import { seriesRanges } from "stint/inspect";
import { jsonText } from "../respond.ts";
import { nothing, namedIn, oneOf, textOf } from "../input.ts";
import { overviews, route } from "../route.ts";
import { presentOverview } from "../present.ts";

export const overviewRoutes = [
  ...overviews.map((name) =>
    route({
      method: "GET",
      path: name,
      right: "view",
      parse: nothing,
      run: async (tools, _, visitor) =>
        jsonText(presentOverview(name, await tools.overviews[name](), visitor, tools.redactor)),
    }),
  ),
  route({
    method: "GET",
    path: "queues/tenants",
    right: "view",
    query: ["queue"],
    parse: ({ query }) => textOf(query.get("queue"), "queue", 128),
    run: async (tools, queue, visitor) => {
      const found = JSON.stringify(await tools.inspector().waitingTenants({ queue }));
      return jsonText(presentOverview("tenants", found, visitor, tools.redactor));
    },
  }),
  route({
    method: "GET",
    path: "series",
    right: "view",
    query: ["queue", "kind", "range"],
    parse: ({ query }) => {
      const range = oneOf(query.get("range"), "range", seriesRanges);
      return {
        ...namedIn(query, "queue"),
        ...namedIn(query, "kind"),
        ...(range === undefined ? {} : { range }),
      };
    },
    run: async (tools, options) => await tools.inspector().series(options),
  }),
];
