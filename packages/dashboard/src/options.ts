import type { IncomingMessage } from "node:http";
import { InvalidOptionError, jsonLogger, type Logger } from "stint";
import type { Authorize } from "./access.ts";
import { makeRedactor, type Redactor } from "./redact.ts";
import type { DashboardClient, Environment } from "./route.ts";
import type { OnAudit } from "./payload-audit.ts";
import { checkTraceUrl } from "./trace-url.ts";

export type DashboardOptions = {
  stint: DashboardClient;
  /** The path of the mount, as "/ops/jobs". Needed only if the framework passes on the whole path without `originalUrl`. */
  basePath?: string;
  /** Returns the visitor. Default: only this machine is served. */
  authorize?: Authorize;
  /** Shown as a badge. In production, bulk operations are confirmed by typing its name. */
  environment?: { name: string; production?: boolean };
  /** Paths of values that never leave the server: "payload.card.number", "*.password", "error.stack". */
  redact?: readonly string[];
  /** Allowed host names, as "jobs.example.com". Default: any with `authorize`, loopback names without it. */
  hosts?: readonly string[];
  /** The address of a trace, as "https://traces.example.com/trace/{traceId}". */
  traceUrl?: string;
  /** Returns the client address by which wrong secrets are counted. Default: the peer of the connection. */
  addressOf?: AddressOf;
  /** Called when a visitor sees a payload. If it throws, the payload is not shown. */
  onAudit?: OnAudit;
  limits?: Partial<Limits>;
  /** Receives failures. Default: JSON lines on standard error. */
  logger?: Logger;
};

/** Behind a proxy: the address from a header that only your own proxy can set. */
export type AddressOf = (
  request: Request,
  context: { readonly req?: IncomingMessage },
) => string | null | undefined;

export type Limits = {
  /** Requests of one user. */
  requestsPerSecond: number;
  burst: number;
  bodyBytes: number;
  urlLength: number;
  /** Live updates: in all, and of one user. */
  streams: number;
  streamsPerUser: number;
  /** Live updates: the shortest pause between two reads of the health, for all viewers together. At most 10 s. */
  refreshMs: number;
};

const usualLimits: Limits = {
  requestsPerSecond: 50,
  burst: 200,
  bodyBytes: 64 * 1024,
  urlLength: 8_192,
  streams: 100,
  streamsPerUser: 20,
  refreshMs: 2_000,
};

export type ResolvedOptions = {
  readonly client: DashboardClient;
  readonly basePath: string;
  readonly authorize: Authorize | undefined;
  readonly environment: Environment | null;
  readonly redactor: Redactor;
  readonly hosts: readonly string[] | undefined;
  readonly traceUrl: string | null;
  readonly addressOf: AddressOf | undefined;
  readonly onAudit: OnAudit | undefined;
  readonly limits: Limits;
  readonly logger: Logger;
};

const optionKeys = [
  "stint",
  "basePath",
  "authorize",
  "environment",
  "redact",
  "hosts",
  "traceUrl",
  "addressOf",
  "onAudit",
  "limits",
  "logger",
] as const satisfies (keyof DashboardOptions)[];

/** Fills in defaults and refuses invalid options. The only place the dashboard's options are checked. */
export function resolveOptions(input: DashboardOptions): ResolvedOptions {
  refuseUnknown("createDashboard", input, optionKeys);
  const { stint: client, authorize, redact = [], logger } = input;
  if (typeof (client as Partial<DashboardClient> | undefined)?.inspector !== "function")
    throw new InvalidOptionError("createDashboard.stint", "must be the client made by createStint(…)");
  // `authorize: undefined`, by mistake, must not open the dashboard to every local user.
  if ("authorize" in input && typeof authorize !== "function")
    throw new InvalidOptionError(
      "createDashboard.authorize",
      "must be a function; leave it out to serve this machine only",
    );
  return {
    client,
    basePath: basePathOf(input.basePath ?? ""),
    authorize,
    environment: environmentOf(input.environment),
    redactor: makeRedactor(textsOf("redact", redact)),
    hosts:
      input.hosts === undefined ? undefined : textsOf("hosts", input.hosts).map((host) => host.toLowerCase()),
    traceUrl: input.traceUrl === undefined ? null : checkTraceUrl(input.traceUrl),
    addressOf: functionOf("addressOf", input.addressOf),
    onAudit: functionOf("onAudit", input.onAudit),
    limits: limitsOf(input.limits ?? {}),
    logger: logger ?? jsonLogger(),
  };
}

function functionOf<T>(name: string, given: T | undefined): T | undefined {
  if (given === undefined || typeof given === "function") return given;
  throw new InvalidOptionError(`createDashboard.${name}`, "must be a function");
}

function basePathOf(path: unknown): string {
  if (typeof path === "string") {
    const trimmed = path.replace(/\/+$/, "");
    if (trimmed === "" || /^(?:\/[\w.~-]+)+$/.test(trimmed)) return trimmed;
  }
  throw new InvalidOptionError("createDashboard.basePath", 'must be a path such as "/ops/jobs"');
}

function environmentOf(given: DashboardOptions["environment"]): Environment | null {
  if (given === undefined) return null;
  refuseUnknown("createDashboard.environment", given, ["name", "production"]);
  const { name, production = false } = given;
  if (typeof name !== "string" || name === "" || name.length > 64)
    throw new InvalidOptionError("createDashboard.environment.name", "must be a text of 1 to 64 characters");
  if (typeof production !== "boolean")
    throw new InvalidOptionError("createDashboard.environment.production", "must be true or false");
  return { name, production };
}

function limitsOf(given: Partial<Limits>): Limits {
  const names = Object.keys(usualLimits) as (keyof Limits)[];
  refuseUnknown("createDashboard.limits", given, names);
  for (const name of names) {
    const value = given[name];
    if (value !== undefined && !(Number.isSafeInteger(value) && value >= 1))
      throw new InvalidOptionError(`createDashboard.limits.${name}`, "must be an integer of at least 1");
  }
  // Pages call figures older than 20 s stale.
  if ((given.refreshMs ?? 0) > 10_000)
    throw new InvalidOptionError("createDashboard.limits.refreshMs", "must be at most 10000");
  return { ...usualLimits, ...given };
}

function textsOf(name: string, given: unknown): string[] {
  if (Array.isArray(given) && given.every((one) => typeof one === "string" && one !== ""))
    return given as string[];
  throw new InvalidOptionError(`createDashboard.${name}`, "must be a list of texts");
}

/** A misspelt `authorise` would otherwise mean no authorization at all. */
export function refuseUnknown(what: string, given: unknown, allowed: readonly string[]): void {
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw new InvalidOptionError(what, "must be an object of options");
  const unknown = Object.keys(given).find((key) => !allowed.includes(key));
  if (unknown !== undefined)
    throw new InvalidOptionError(`${what}.${unknown}`, `is not an option. ${what} has ${allowed.join(", ")}`);
}
