/** How many workers there should be: as JSON for the Capacity screen and for autoscalers such as KEDA. */
import type { CapacityOptions } from "stint/inspect";
import { presentCapacity } from "../present-controls.ts";
import { badRequest } from "../problem.ts";
import { route } from "../route.ts";

export const capacityRoutes = [
  route({
    method: "GET",
    path: "capacity",
    right: "view",
    query: ["queues", "slots", "target", "min", "max"],
    parse: ({ query }) => optionsOf(query),
    run: async (tools, options, visitor) => {
      const isWhole = Object.keys(options).length === 0;
      const found = isWhole ? await tools.capacity() : await tools.inspector().capacity(options);
      return presentCapacity(found, visitor, tools.redactor);
    },
  }),
];

/** `queues=mail,notes&slots=10`: one pool. Left out: every queue by itself. */
function optionsOf(query: URLSearchParams): CapacityOptions {
  const given = (name: string): string | undefined => query.get(name) || undefined;
  const [queues, target] = [given("queues"), given("target")];
  const [slots, min, max] = [numberOf(query, "slots"), numberOf(query, "min"), numberOf(query, "max")];
  if ((queues === undefined) !== (slots === undefined))
    throw badRequest("queues and slots belong together: queues=mail,notes&slots=10.");
  return {
    ...(queues === undefined || slots === undefined
      ? {}
      : { pools: [{ name: queues, queues: queues.split(","), slots }] }),
    ...(target === undefined ? {} : { target }),
    ...(min === undefined ? {} : { min }),
    ...(max === undefined ? {} : { max }),
  };
}

function numberOf(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name) ?? "";
  if (text === "") return undefined;
  if (!/^\d{1,9}$/.test(text)) throw badRequest(`${name} must be a number.`);
  return Number(text);
}
