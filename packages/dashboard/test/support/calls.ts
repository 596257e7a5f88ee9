/** A valid request for each route, so that a refusal has only the reason under test. */
import type { Route } from "#dashboard/route.js";
import { jobId } from "./fake.ts";

const filter = { state: ["dead"] };
const bodies: Record<string, unknown> = {
  "jobs/:id/cancel": { reason: "not needed" },
  "jobs/:id/run-now": {},
  "jobs/:id/replay": { reason: "fixed" },
  "jobs/:id/change": { priority: 5, reason: "urgent" },
  "operations/preview": { action: "replay", filter },
  operations: { action: "replay", filter, reason: "fixed" },
  "operations/:id/abort": {},
  "flows/:id/cancel": { reason: "not needed" },
  "pauses/pause": { scope: "queue", name: "emails", for: "2h", reason: "incident 12" },
  "pauses/resume": { scope: "queue", name: "emails", reason: "incident 12 is over" },
  "limits/set": { name: "kind:charge", max: 5, reason: "incident 12" },
  "limits/pass": { key: "order:charge=42", reason: "booked by hand" },
  "dependencies/set": { name: "openai", change: { concurrency: 5 }, reason: "incident 12" },
  "queues/set": { queue: "emails", targetAge: "1m", reason: "incident 12" },
  "schedules/pause": { name: "nightly", reason: "incident 12" },
  "schedules/resume": { name: "nightly" },
  "schedules/run": { name: "nightly" },
  "schedules/remove": { name: "nightly", reason: "not needed" },
  "schedules/add": { name: "weekly", kind: "work", payload: {}, cron: "0 3 * * 1", zone: "Europe/Berlin" },
};

/** Parameters without which a route refuses its request. */
const queries: Record<string, string> = {
  "queues/tenants": "?queue=default",
  "limits/keys": "?search=account",
  "schedules/show": "?name=nightly",
  "schedules/slots": "?name=nightly",
  "schedules/next": "?name=nightly",
};

export function pathOf(route: Route): string {
  return `/api/${route.path.replace(":id", jobId)}${queries[route.path] ?? ""}`;
}

/** @throws A POST route without an example: a new one needs its line above. */
export function bodyOf(route: Route): unknown {
  const body = bodies[route.path];
  if (body === undefined) throw new Error(`Write an example body for POST ${route.path}`);
  return body;
}
