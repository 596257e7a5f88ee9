/** The shape of an API route. Routes are data: the server, the tests and openapi.json use the same list. */
import type { Stint } from "stint";
import type { Capacity, Inspector } from "stint/inspect";
import type { Right, Visitor } from "./access.ts";
import type { Events } from "./events.ts";
import type { Redactor } from "./redact.ts";
import type { PayloadAudit } from "./payload-audit.ts";

/** The part of a client that the dashboard uses. */
export type DashboardClient = Pick<Stint, "inspector" | "get" | "cancel" | "runNow" | "replay" | "change"> & {
  readonly schedules: Pick<Stint["schedules"], "create" | "pause" | "resume" | "runNow" | "remove">;
  readonly flows: Pick<Stint["flows"], "cancel">;
  readonly pauses: Pick<Stint["pauses"], "pause" | "resume">;
  readonly limits: Pick<Stint["limits"], "set" | "pass">;
  readonly dependencies: Pick<Stint["dependencies"], "set">;
  readonly queueSettings: Pick<Stint["queueSettings"], "set">;
};

export type Environment = { readonly name: string; readonly production: boolean };

/** Dependencies of routes. */
export type Tools = {
  readonly client: DashboardClient;
  inspector(): Inspector;
  /** Reads without arguments, as JSON, shared by all viewers for up to a second. */
  readonly overviews: Readonly<Record<Overview, () => Promise<string>>>;
  /** The recommendation for every queue by itself, shared like an overview. */
  capacity(): Promise<Capacity>;
  /** The next read of an overview is a new one: a visitor who changed something must see the change. */
  forgetOverviews(): void;
  readonly events: Events;
  readonly redactor: Redactor;
  readonly payloadAudit: PayloadAudit;
  readonly environment: Environment | null;
  readonly traceUrl: string | null;
};

export const overviews = [
  "health",
  "stats",
  "kinds",
  "tenants",
  "workers",
  "stops",
  "slow",
  "controls",
] as const;
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
  /** Allowed query parameters and body keys. Others are refused: a misspelt filter would match everything. */
  readonly query?: readonly string[];
  readonly body?: readonly string[];
  readonly status?: number;
  /** @throws {Problem} The input is invalid. */
  readonly parse: (input: Input, tools: Tools) => T;
  /** Returns the body; a Response is sent as it is. */
  readonly run: (tools: Tools, input: T, visitor: Visitor) => Promise<unknown>;
};

export type Route = Omit<RouteDefinition<unknown>, "parse" | "run"> & {
  readonly respond: (tools: Tools, input: Input, visitor: Visitor) => Promise<unknown>;
};

/** Ties the input type of `run` to the output of `parse`. */
export function route<T>({ parse, run, ...rest }: RouteDefinition<T>): Route {
  return {
    ...rest,
    respond: async (tools, input, visitor) => await run(tools, parse(input, tools), visitor),
  };
}
