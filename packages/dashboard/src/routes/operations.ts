/** Bulk operations: preview, start with a reason, progress, abort. */
import { requireConfirmation } from "../confirmation.ts";
import { requireSearchable } from "../filters.ts";
import { actionOf, bulkFilterOf, idOf, nothing, previewOf, reasonOf } from "../input.ts";
import { Problem } from "../problem.ts";
import { route } from "../route.ts";
import { presentOperation, presentPreview } from "../present.ts";

export const operationRoutes = [
  route({
    method: "GET",
    path: "operations",
    right: "view",
    parse: nothing,
    run: async (tools, _, visitor) =>
      (await tools.inspector().operations()).map((one) => presentOperation(one, visitor, tools.redactor)),
  }),
  route({
    method: "GET",
    path: "operations/:id",
    right: "view",
    parse: idOf,
    run: async (tools, id, visitor) =>
      presentOperation((await tools.inspector().operation(id)) ?? notFound(id), visitor, tools.redactor),
  }),
  route({
    method: "POST",
    path: "operations/preview",
    right: "operate",
    body: ["action", "filter"],
    parse: ({ body }) => ({ action: actionOf(body), filter: bulkFilterOf(body) }),
    run: async (tools, { action, filter }, visitor) => {
      requireSearchable(filter, visitor, tools.redactor);
      const preview = await tools.inspector().preview(action, filter);
      return await presentPreview(preview, tools.redactor, async (id) => await tools.client.get(id));
    },
  }),
  route({
    method: "POST",
    path: "operations",
    right: "operate",
    body: ["action", "filter", "reason", "confirm", "preview"],
    status: 201,
    parse: ({ body }, { environment }) => {
      const begin = {
        action: actionOf(body),
        filter: bulkFilterOf(body),
        reason: reasonOf(body, true) ?? "",
        preview: previewOf(body),
      };
      requireConfirmation(body, environment, "Bulk operations");
      return begin;
    },
    run: async (tools, { action, filter, reason, preview }, visitor) => {
      requireSearchable(filter, visitor, tools.redactor);
      const frozen = preview === undefined ? {} : { preview };
      return await tools.inspector().begin(action, filter, { reason, actor: visitor.actor, ...frozen });
    },
  }),
  route({
    method: "POST",
    path: "operations/:id/abort",
    right: "operate",
    body: [],
    parse: idOf,
    run: async (tools, id, visitor) =>
      presentOperation((await tools.inspector().abort(id)) ?? notFound(id), visitor, tools.redactor),
  }),
];

function notFound(id: string): never {
  throw new Problem(404, "OPERATION_NOT_FOUND", `No operation ${id} exists.`);
}
