/** Bulk operations: preview, start with a reason, progress, abort. */
import { requireSearchable } from "../filters.ts";
import { actionOf, bulkFilterOf, idOf, nothing, previewOf, reasonOf } from "../input.ts";
import { Problem } from "../problem.ts";
import { route, type Environment, type Input } from "../route.ts";
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
      requireConfirmation(body, environment);
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

/** Prevents bulk operations in production by mistake, or in the wrong window. */
function requireConfirmation(body: Input["body"], environment: Environment | null): void {
  if (environment === null || !environment.production || body["confirm"] === environment.name) return;
  throw new Problem(400, "CONFIRMATION_NEEDED", "Bulk operations in production must be confirmed.", {
    hint: `Send confirm: ${JSON.stringify(environment.name)}, the name of this environment.`,
  });
}

function notFound(id: string): never {
  throw new Problem(404, "OPERATION_NOT_FOUND", `No operation ${id} exists.`);
}
