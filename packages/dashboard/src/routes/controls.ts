/** Changes of pauses, limits, dependencies and queue settings. The library checks the values. */
import type { DependencyOptionsChange, PauseOptions, PauseTarget, QueueChange } from "stint";
import { requireConfirmation } from "../confirmation.ts";
import { dateOf, reasonOf, textOf } from "../input.ts";
import { limitsValue, pausesValue, requireNameable } from "../present-controls.ts";
import { badRequest } from "../problem.ts";
import { route, type Input, type Tools } from "../route.ts";

/** The reason of a change. In production the name of the environment is needed, too: a control is about many jobs. */
function reasonIn(body: Input["body"], { environment }: Tools): string {
  const reason = reasonOf(body, true) ?? "";
  requireConfirmation(body, environment, "Changes of controls");
  return reason;
}

/** The page reads the controls again as soon as it has the response. */
async function shown<Result>(tools: Tools, change: Promise<Result>): Promise<Result> {
  try {
    return await change;
  } finally {
    tools.forgetOverviews();
  }
}

/** What to pause or resume: a scope and a name. */
function targetOf(body: Input["body"]): { readonly scope: string; readonly target: PauseTarget } {
  const scope = textOf(body["scope"], "scope", 32);
  const name = textOf(body["name"], "name");
  return { scope, target: { [scope]: name } as unknown as PauseTarget };
}

/** An empty field of a form is left out. */
function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null && value !== "";
}

function endOf(body: Input["body"]): Pick<PauseOptions, "for" | "until"> {
  const { for: length, until } = body;
  return {
    ...(isGiven(length) ? { for: textOf(length, "for", 32) } : {}),
    ...(isGiven(until) ? { until: dateOf(until, "until") } : {}),
  };
}

/** What to change of a dependency. The library checks its parts. */
function changeOf(change: unknown): DependencyOptionsChange | null {
  if (change !== null && (typeof change !== "object" || Array.isArray(change)))
    throw badRequest(
      "change must be an object of concurrency, rate and quota, or null for the declared settings.",
    );
  return change;
}

export const controlRoutes = [
  route({
    method: "GET",
    path: "limits/keys",
    right: "view",
    query: ["search"],
    parse: ({ query }) => textOf(query.get("search"), "search", 768),
    run: async (tools, search, visitor) => {
      requireNameable(true, visitor, tools.redactor);
      return await tools.inspector().limitKeys({ search });
    },
  }),
  route({
    method: "POST",
    path: "pauses/pause",
    right: "operate",
    body: ["scope", "name", "for", "until", "reason", "confirm"],
    parse: ({ body }, tools) => ({ ...targetOf(body), ...endOf(body), reason: reasonIn(body, tools) }),
    run: async (tools, { scope, target, ...options }, visitor) => {
      requireNameable(pausesValue(scope), visitor, tools.redactor);
      await shown(tools, tools.client.pauses.pause(target, { ...options, actor: visitor.actor }));
      return {};
    },
  }),
  route({
    method: "POST",
    path: "pauses/resume",
    right: "operate",
    body: ["scope", "name", "reason", "confirm"],
    parse: ({ body }, tools) => ({ ...targetOf(body), reason: reasonIn(body, tools) }),
    run: async (tools, { scope, target, reason }, visitor) => {
      requireNameable(pausesValue(scope), visitor, tools.redactor);
      const act = { reason, actor: visitor.actor };
      return { resumed: await shown(tools, tools.client.pauses.resume(target, act)) };
    },
  }),
  route({
    method: "POST",
    path: "limits/set",
    right: "operate",
    body: ["name", "max", "reason", "confirm"],
    parse: ({ body }, tools) => {
      const { max } = body;
      if (max !== null && typeof max !== "number")
        throw badRequest("max must be a number, or null for the declared value.");
      return { name: textOf(body["name"], "name", 768), max, reason: reasonIn(body, tools) };
    },
    run: async (tools, { name, max, reason }, visitor) => {
      requireNameable(limitsValue(name), visitor, tools.redactor);
      const act = { reason, actor: visitor.actor };
      return { limit: (await shown(tools, tools.client.limits.set(name, max, act))) ?? null };
    },
  }),
  route({
    method: "POST",
    path: "limits/pass",
    right: "operate",
    body: ["key", "reason", "confirm"],
    parse: ({ body }, tools) => ({ key: textOf(body["key"], "key", 768), reason: reasonIn(body, tools) }),
    run: async (tools, { key, reason }, visitor) => {
      requireNameable(limitsValue(key), visitor, tools.redactor);
      const act = { reason, actor: visitor.actor };
      return { job: (await shown(tools, tools.client.limits.pass(key, act))) ?? null };
    },
  }),
  route({
    method: "POST",
    path: "dependencies/set",
    right: "operate",
    body: ["name", "change", "reason", "confirm"],
    parse: ({ body }, tools) => ({
      name: textOf(body["name"], "name", 116),
      change: changeOf(body["change"]),
      reason: reasonIn(body, tools),
    }),
    run: async (tools, { name, change, reason }, { actor }) =>
      await shown(tools, tools.client.dependencies.set(name, change, { reason, actor })),
  }),
  route({
    method: "POST",
    path: "queues/set",
    right: "operate",
    body: ["queue", "targetAge", "admission", "reason", "confirm"],
    parse: ({ body }, tools) => {
      const { targetAge, admission } = body;
      return {
        queue: textOf(body["queue"], "queue", 128),
        change: {
          ...(targetAge === undefined ? {} : { targetAge }),
          ...(admission === undefined ? {} : { admission }),
        } as QueueChange,
        reason: reasonIn(body, tools),
      };
    },
    run: async (tools, { queue, change, reason }, { actor }) =>
      await shown(tools, tools.client.queueSettings.set(queue, change, { reason, actor })),
  }),
];
