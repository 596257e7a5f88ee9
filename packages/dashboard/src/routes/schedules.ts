/** Schedules: lists, one schedule, previews of slots, and changes. Names contain `/`, so they are parameters and not parts of the path. */
import type { ScheduleState, ScheduleTiming, SetScheduleOptions } from "stint";
import { afterOf, dateOf, limitOf, namedIn, nothing, oneOf, reasonOf, textOf } from "../input.ts";
import { presentSchedule, presentSchedules } from "../present-schedules.ts";
import { badRequest, Problem } from "../problem.ts";
import { route, type Input } from "../route.ts";

const states = ["active", "paused", "ended", "broken"] as const satisfies readonly ScheduleState[];

function nameOf(given: unknown): string {
  return textOf(given, "name", 128);
}

function optional<Key extends string>(
  query: URLSearchParams,
  key: Key,
  max = 256,
): { [name in Key]?: string } {
  const text = query.get(key) ?? "";
  return (text === "" ? {} : { [key]: textOf(text, key, max) }) as { [name in Key]?: string };
}

/** What the actions on one schedule take. */
function changeOf(body: Input["body"], reasonNeeded: boolean) {
  const reason = reasonOf(body, reasonNeeded);
  return { name: nameOf(body["name"]), act: reason === undefined ? {} : { reason } };
}

const notFound = (name: string): Problem =>
  new Problem(404, "SCHEDULE_NOT_FOUND", `No schedule ${name} exists.`, {
    hint: "It was removed, or its name is misspelt.",
  });

export const scheduleRoutes = [
  route({
    method: "GET",
    path: "schedules",
    right: "view",
    query: ["search", "state", "owner", "kind", "after", "limit"],
    parse: ({ query }) => {
      const state = oneOf(query.get("state"), "state", states);
      return {
        ...optional(query, "search", 128),
        ...optional(query, "owner", 512),
        ...namedIn(query, "kind"),
        ...(state === undefined ? {} : { state }),
        ...afterOf(query),
        limit: limitOf(query, { fallback: 50, max: 200 }),
      };
    },
    run: async (tools, filter) => {
      const inspector = tools.inspector();
      return await presentSchedules(
        await inspector.schedules(filter),
        tools.redactor,
        async (name) => (await inspector.schedule(name))?.schedule,
      );
    },
  }),
  route({
    method: "GET",
    path: "schedules/counts",
    right: "view",
    parse: nothing,
    run: async (tools) => await tools.inspector().scheduleCounts(),
  }),
  route({
    method: "GET",
    path: "schedules/show",
    right: "view",
    query: ["name"],
    parse: ({ query }) => nameOf(query.get("name")),
    run: async (tools, name, visitor) => {
      const found = await tools.inspector().schedule(name);
      if (found === undefined) throw notFound(name);
      if (visitor.can.payloads)
        await tools.payloadAudit.record(visitor, { schedule: name, kind: found.schedule.kind });
      return presentSchedule(found, visitor, tools.redactor);
    },
  }),
  route({
    method: "GET",
    path: "schedules/slots",
    right: "view",
    query: ["name", "before", "limit"],
    parse: ({ query }) => {
      const before = query.get("before") ?? "";
      return {
        name: nameOf(query.get("name")),
        limit: limitOf(query, { fallback: 50, max: 200 }),
        ...(before === "" ? {} : { before: dateOf(before, "before") }),
      };
    },
    run: async (tools, { name, ...options }) => ({
      slots: await tools.inspector().scheduleSlots(name, options),
    }),
  }),
  route({
    method: "GET",
    path: "schedules/next",
    right: "view",
    query: ["name", "cron", "every", "zone", "in", "count"],
    parse: ({ query }) => {
      const given = ["name", "cron", "every"].filter((key) => (query.get(key) ?? "") !== "");
      if (given.length !== 1) throw badRequest("Send name, cron or every: one of them.");
      const { in: zone } = optional(query, "in", 64);
      const timing = {
        ...optional(query, "cron"),
        ...optional(query, "every"),
        ...optional(query, "zone", 64),
      };
      const { name } = optional(query, "name", 128);
      return {
        schedule: name ?? (timing as object as ScheduleTiming),
        count: limitOf(query, { fallback: 10, max: 100, name: "count" }),
        ...(zone === undefined ? {} : { zone }),
      };
    },
    run: async (tools, { schedule, ...options }) => await tools.inspector().nextSlots(schedule, options),
  }),
  route({
    method: "POST",
    path: "schedules/pause",
    right: "operate",
    body: ["name", "reason"],
    parse: ({ body }) => changeOf(body, true),
    run: async ({ client }, { name, act }, { actor }) => {
      await client.schedules.pause(name, { actor, ...act });
      return {};
    },
  }),
  route({
    method: "POST",
    path: "schedules/resume",
    right: "operate",
    body: ["name", "reason"],
    parse: ({ body }) => changeOf(body, false),
    run: async ({ client }, { name, act }, { actor }) => {
      await client.schedules.resume(name, { actor, ...act });
      return {};
    },
  }),
  route({
    method: "POST",
    path: "schedules/run",
    right: "operate",
    body: ["name", "reason"],
    status: 201,
    parse: ({ body }) => changeOf(body, false),
    run: async ({ client }, { name, act }, { actor }) => ({
      id: await client.schedules.runNow(name, { actor, ...act }),
    }),
  }),
  route({
    method: "POST",
    path: "schedules/remove",
    // Its rule and its payload cannot be restored.
    right: "admin",
    body: ["name", "reason"],
    parse: ({ body }) => changeOf(body, true),
    run: async ({ client }, { name, act }, { actor }) => {
      if (!(await client.schedules.remove(name, { actor, ...act }))) throw notFound(name);
      return {};
    },
  }),
  route({
    method: "POST",
    path: "schedules/add",
    // Enqueues jobs with a payload of the visitor's choice.
    right: "admin",
    body: [
      "name",
      "kind",
      "payload",
      "cron",
      "every",
      "zone",
      "catchUp",
      "overlap",
      "jitter",
      "startAt",
      "endAt",
      "quietHours",
      "tenant",
      "tags",
      "priority",
      "reason",
    ],
    status: 201,
    parse: ({ body }) => ({ ...changeOf(body, false), options: optionsOf(body) }),
    run: async (tools, { name, options, act }, { actor }) => {
      const { schedules } = tools.client;
      // A second person must not replace the first one's by mistake. `create` also refuses one that is made between these two calls.
      if ((await tools.inspector().schedule(name)) !== undefined)
        throw new Problem(409, "SCHEDULE_EXISTS", `A schedule ${name} exists already.`, {
          hint: "Choose another name, or change it with stint schedules add.",
        });
      const { nextSlot } = await schedules.create(name, options, { actor, ...act });
      return { name, nextSlot };
    },
  }),
];

/** The library checks the values; the dates of JSON are texts. */
function optionsOf(body: Input["body"]): SetScheduleOptions {
  const { kind, payload = null, startAt, endAt, tenant, tags, priority, ...rest } = given(body);
  const { name: _, reason: __, ...timing } = rest;
  return {
    ...timing,
    ...given({
      startAt: startAt === undefined ? undefined : dateOf(startAt, "startAt"),
      endAt: endAt === undefined ? undefined : dateOf(endAt, "endAt"),
    }),
    job: textOf(kind, "kind", 128),
    payload,
    options: given({ tenant, tags, priority }),
  } as SetScheduleOptions;
}

/** Null and an empty text stand for a field that a form leaves empty. */
function given(values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(values).filter(
      ([key, value]) => key === "payload" || (value !== undefined && value !== null && value !== ""),
    ),
  );
}
