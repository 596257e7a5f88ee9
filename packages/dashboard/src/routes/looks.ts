/** What is looked at as a whole: health, stats, kinds, workers, slow jobs; and the series behind the charts. */
import { seriesRanges } from "stint";
import { nothing, oneOf, textOf } from "../input.ts";
import { looks, route } from "../route.ts";

export const lookRoutes = [
  ...looks.map((name) =>
    route({
      method: "GET",
      path: name,
      right: "view",
      parse: nothing,
      run: async (tools) => await tools.looks[name](),
    }),
  ),
  route({
    method: "GET",
    path: "series",
    right: "view",
    query: ["queue", "kind", "range"],
    parse: ({ query }) => {
      const queue = query.get("queue") ?? "";
      const kind = query.get("kind") ?? "";
      const range = oneOf(query.get("range"), "range", seriesRanges);
      return {
        ...(queue === "" ? {} : { queue: textOf(queue, "queue", 128) }),
        ...(kind === "" ? {} : { kind: textOf(kind, "kind", 128) }),
        ...(range === undefined ? {} : { range }),
      };
    },
    run: async (tools, options) => await tools.inspector().series(options),
  }),
];
