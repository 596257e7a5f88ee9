/** Requests to a dashboard through its fetch handler, as from its own page or from a program. */
import { onTestFinished } from "vitest";
import { silentLogger } from "stint";
import { createDashboard, type Access, type Dashboard, type DashboardOptions } from "#dashboard/index.js";
import { fakeStint } from "./fake.ts";

export const origin = "https://jobs.example.com";

/** The headers of a browser for a request of the dashboard's own page. */
export const browserHeaders = {
  "sec-fetch-site": "same-origin",
  "sec-fetch-mode": "cors",
  origin,
  host: "jobs.example.com",
};

/** A dashboard that authorizes every request with this access. Closed when the test ends. */
export function open(
  access: Access | null = { role: "admin", user: "ada" },
  options: Partial<DashboardOptions> = {},
): Dashboard {
  const dashboard = createDashboard({
    stint: fakeStint(),
    logger: silentLogger,
    authorize: () => access,
    ...options,
  });
  onTestFinished(async () => await dashboard.close());
  return dashboard;
}

export type TestResponse = {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: unknown;
};

export async function request(
  dashboard: Dashboard,
  path: string,
  { headers = browserHeaders, ...init }: RequestInit & { headers?: Record<string, string> } = {},
): Promise<TestResponse> {
  const response = await dashboard.fetch(new Request(`${origin}${path}`, { ...init, headers }));
  const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
  if (isStream) await response.body?.cancel();
  const text = isStream ? "" : await response.text();
  const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: isJson ? JSON.parse(text) : undefined,
  };
}

export async function post(
  dashboard: Dashboard,
  path: string,
  body: unknown,
  headers: Record<string, string> = browserHeaders,
): Promise<TestResponse> {
  return await request(dashboard, path, {
    method: "POST",
    body: typeof body === "string" ? body : JSON.stringify(body),
    headers: { "content-type": "application/json", ...headers },
  });
}
