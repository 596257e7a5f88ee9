/** Dead jobs grouped by error. */
import { namedIn } from "../input.ts";
import { route } from "../route.ts";
import { presentGroups } from "../present.ts";

export const deadRoutes = [
  route({
    method: "GET",
    path: "dead/groups",
    right: "view",
    query: ["kind", "queue"],
    parse: ({ query }) => ({ ...namedIn(query, "kind"), ...namedIn(query, "queue") }),
    run: async (tools, filter, visitor) =>
      await presentGroups(
        await tools.inspector().deadGroups(filter),
        visitor,
        tools.redactor,
        async (id) => await tools.client.get(id),
      ),
  }),
];
