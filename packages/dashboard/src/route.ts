/** The shape of an API route: data, so that tests, the document and the server all go by the same table. */
import type { Stint } from "stint";
import type { Inspector } from "stint/inspect";
import type { Right, Visitor } from "./access.ts";
import type { Events } from "./events.ts";
import type { Redactor } from "./redact.ts";
import type { PayloadAudit } from "./payload-audit.ts";

/** What the dashboard needs of a client. */
export type DashboardClient = Pick<Stint, "inspector" | "get" | "cancel" | "runNow" | "replay">;

export type Environment = { readonly name: string; readonly production: boolean };

/** What routes work with. */
export type Tools = {
  readonly client: DashboardClient;
  inspector(): Inspector;
  /** The reads without arguments, shared by all who ask within a second, as JSON. */
  readonly overviews: Readonly<Record<Overview, () => Promise<string>>>;
  readonly events: Events;
  readonly redactor: Redactor;
  readonly payloadAudit: PayloadAudit;
  readonly environment: Environment | null;
  readonly traceUrl: string | null;
};

export const overviews = ["health", "stats", "kinds", "tenants", "workers", "slow"] as const;
export type Overview = (typeof overviews)[number];

/** A request as routes see it: taken apart, not yet checked. */
export type Input = {
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly body: Readonly<Record<string, unknown>>;
};

export type RouteDefinition<T> = {
  readonly method: "GET" | "POST";
  /** Below `api/`; `:name` stands for one segment. */
  readonly path: string;
  readonly right: Right;
  /** Parameters and keys of the body that it takes. Others are refused: a misspelt filter would match everything. */
  readonly query?: readonly string[];
  readonly body?: readonly string[];
  readonly status?: number;
  /** @throws {Problem} What was sent cannot be meant. */
  readonly parse: (input: Input, tools: Tools) => T;
  /** The answer; a Response is sent as it is. */
  readonly run: (tools: Tools, input: T, visitor: Visitor) => Promise<unknown>;
};

export type Route = Omit<RouteDefinition<unknown>, "parse" | "run"> & {
  readonly answer: (tools: Tools, input: Input, visitor: Visitor) => Promise<unknown>;
};

/** Tie `run` to what `parse` answers. */
export function route<T>({ parse, run, ...rest }: RouteDefinition<T>): Route {
  return { ...rest, answer: async (tools, input, visitor) => await run(tools, parse(input, tools), visitor) };
}
