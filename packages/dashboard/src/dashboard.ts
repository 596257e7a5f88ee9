import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { localVisitor, toVisitor, type Access, type Visitor } from "./access.ts";
import { problemResponse } from "./respond.ts";
import { Assets } from "./assets.ts";
import { compressed } from "./compress.ts";
import { LoginThrottle, type LoginAttempt } from "./login-throttle.ts";
import {
  checkHost,
  checkReader,
  checkWriter,
  hostOf,
  isForwarded,
  isLoopbackAddress,
  isLoopbackHost,
  type RequestLimits,
} from "./request-guard.ts";
import { metricsResponse } from "./metrics.ts";
import { respondNode, nodeMount, toRequest } from "./node.ts";
import { resolveOptions, type DashboardOptions } from "./options.ts";
import { baseHref, mountOf, type Mount } from "./mount.ts";
import { Problem, problemOf } from "./problem.ts";
import { Rate } from "./rate.ts";
import { handleApi } from "./router.ts";
import { makeTools } from "./tools.ts";

export type Dashboard = {
  /** For Hono, Next, Nitro and any framework with Request and Response. */
  readonly fetch: (request: Request) => Promise<Response>;
  /** For node:http, Express, Nest, and Fastify with @fastify/middie. */
  readonly node: (req: IncomingMessage, res: ServerResponse, next?: (error?: unknown) => void) => void;
  /** End live updates and close the connections. The client stays open. */
  readonly close: () => Promise<void>;
};

/** The origin of a request, if the adapter provides it. */
type Sender = { readonly req?: IncomingMessage; readonly address?: string | undefined };

/**
 * Creates the dashboard: one handler that can be mounted at any path.
 *
 * @throws {InvalidOptionError} An option is invalid.
 */
export function createDashboard(options: DashboardOptions): Dashboard {
  const resolved = resolveOptions(options);
  const { basePath, limits, logger } = resolved;
  const { tools, metrics, close } = makeTools(resolved);
  const assets = new Assets();
  const rate = new Rate({ perSecond: limits.requestsPerSecond, burst: limits.burst });
  const loginThrottle = new LoginThrottle();
  const requestLimits: RequestLimits = { hosts: resolved.hosts, maxUrl: limits.urlLength };

  async function handle(request: Request, mount: Mount, sender: Sender): Promise<Response> {
    try {
      return await compressed(request, await respond(request, mount, sender));
    } catch (error) {
      const problem = problemOf(error);
      if (problem !== undefined) return problemResponse(problem);
      const id = randomUUID();
      logger.error(
        { err: error, id, method: request.method, path: mount.inner },
        "the dashboard could not respond",
      );
      return problemResponse(new Problem(500, "INTERNAL", `Internal error, logged as ${id}.`));
    }
  }

  async function respond(request: Request, mount: Mount, sender: Sender): Promise<Response> {
    checkHost(request, requestLimits);
    const isApi = mount.inner.startsWith("/api/");
    checkMethod(request.method, isApi);
    if (request.method === "POST") checkWriter(request, requestLimits);
    else if (isApi || mount.inner === "/metrics") checkReader(request);

    const { visitor, tried } = await enter(request, sender);
    const wait = rate.take(visitor.user ?? sender.address ?? "");
    if (wait > 0) {
      throw new Problem(429, "TOO_MANY_REQUESTS", "Too many requests.", {
        hint: `Try again in ${wait} s.`,
        headers: { "retry-after": String(wait) },
      });
    }
    if (isApi)
      return await handleApi(request, mount.inner.slice("/api/".length), {
        tools,
        visitor,
        bodyBytes: limits.bodyBytes,
      });
    const response = await handlePage(request, mount);
    const cookie =
      tried === undefined ? undefined : loginThrottle.cookieFor(tried, request, mount.base ?? "");
    // Scrapers keep no cookies.
    if (cookie !== undefined && mount.inner !== "/metrics") response.headers.append("set-cookie", cookie);
    return request.method === "HEAD" ? new Response(null, response) : response;
  }

  /** Authenticates the request. `tried`: it carried valid credentials. */
  async function enter(
    request: Request,
    sender: Sender,
  ): Promise<{ visitor: Visitor; tried?: LoginAttempt | undefined }> {
    const { authorize, addressOf } = resolved;
    if (authorize === undefined) return { visitor: requireLocal(request, sender) };
    const context = sender.req === undefined ? {} : { req: sender.req };
    const tried = loginThrottle.begin(request, addressOf?.(request, context) ?? sender.address ?? "");
    let access: Access | null | undefined;
    try {
      access = await authorize(request, context);
    } finally {
      // Also when `authorize` throws: otherwise a request that makes it throw could be repeated without limit.
      if (tried !== undefined) loginThrottle.end(tried, access !== null && access !== undefined);
    }
    if (access !== null && access !== undefined) return { visitor: toVisitor(access), tried };
    const { challenge } = authorize;
    throw new Problem(401, "NOT_SIGNED_IN", "Sign in to see this.", {
      headers: challenge === undefined || challenge === "" ? {} : { "www-authenticate": challenge },
    });
  }

  async function handlePage(request: Request, mount: Mount): Promise<Response> {
    const { inner } = mount;
    if (inner === "/metrics") return metricsResponse(await metrics());
    if (inner.startsWith("/assets/")) return await assets.file(inner.slice(1), request);
    // Also for the mount without a trailing slash: the page contains its mount path. A redirect to the slash would loop with
    // frameworks that strip the slash.
    return await assets.page(baseHref(mount));
  }

  return {
    fetch: async (request) => await handle(request, mountOf(new URL(request.url).pathname, basePath), {}),
    node(req, res, next) {
      const mount = nodeMount(req, basePath);
      // The mount is known and this path is not below it.
      if (mount === undefined && next !== undefined) return next();
      void respondNode(res, async () => {
        if (mount === undefined)
          return problemResponse(new Problem(404, "NOT_FOUND", "There is nothing here."));
        return await handle(toRequest(req), mount, { req, address: req.socket.remoteAddress });
      });
    },
    close,
  };
}

function checkMethod(method: string, isApi: boolean): void {
  const allowed = isApi ? ["GET", "POST"] : ["GET", "HEAD"];
  if (allowed.includes(method)) return;
  const allow = allowed.join(", ");
  throw new Problem(405, "METHOD_NOT_ALLOWED", `This takes ${allow} only.`, { headers: { allow } });
}

/** Without `authorize` only local users are let in. The peer address alone does not prove that a request is local. */
function requireLocal(request: Request, { req, address }: Sender): Visitor {
  const isLocal =
    isLoopbackAddress(address) &&
    isLoopbackHost(hostOf(request)) &&
    !isForwarded(request) &&
    // Browsers no longer use HTTP/1.0; nginx uses it for upstream requests by default, without any forwarding header.
    req?.httpVersion !== "1.0";
  if (isLocal) return localVisitor;
  throw new Problem(
    403,
    "LOCAL_ONLY",
    "createDashboard has no `authorize`, so it serves this machine only.",
    {
      hint: "Pass authorize to createDashboard, or run `stint dashboard` with a token.",
    },
  );
}
