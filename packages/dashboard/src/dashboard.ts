import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { renderMetrics, type Inspector } from "stint";
import { localVisitor, toVisitor, type Visitor } from "./access.ts";
import { answer, problemAnswer } from "./answer.ts";
import { Assets } from "./assets.ts";
import { Events } from "./events.ts";
import {
  checkHost,
  checkReader,
  checkWriter,
  hostOf,
  isForwarded,
  isLoopbackAddress,
  isLoopbackHost,
  type Gate,
} from "./gate.ts";
import { noStore } from "./headers.ts";
import { metricsAnswer } from "./metrics.ts";
import { answerNode, nodePlace, toRequest } from "./node.ts";
import { resolveOptions, type DashboardOptions, type ResolvedOptions } from "./options.ts";
import { baseHref, placeOf, type Place } from "./place.ts";
import { Problem, problemOf } from "./problem.ts";
import { Rate } from "./rate.ts";
import { looks, type Look, type Tools } from "./route.ts";
import { answerApi } from "./router.ts";
import { Shared } from "./shared.ts";

export type Dashboard = {
  /** For Hono, Next, Nitro and whatever else speaks Request and Response. */
  readonly fetch: (request: Request) => Promise<Response>;
  /** For node:http, Express, Nest, and Fastify with @fastify/middie. */
  readonly node: (req: IncomingMessage, res: ServerResponse, next?: (error?: unknown) => void) => void;
  /** End live updates and close the connections. The client stays open. */
  readonly close: () => Promise<void>;
};

/** Where a request came from, as far as the adapter knows. */
type Sender = { readonly req?: IncomingMessage; readonly address?: string | undefined };

/** How long an answer to a question without arguments serves all who ask it. */
const freshMs = 1_000;

/**
 * Make the dashboard: one handler, to be mounted anywhere.
 *
 * @throws {InvalidOptionError} An option cannot work.
 */
export function createDashboard(options: DashboardOptions): Dashboard {
  const resolved = resolveOptions(options);
  const { basePath, limits, logger } = resolved;
  const { tools, close } = makeTools(resolved);
  const assets = new Assets();
  const rate = new Rate({ perSecond: limits.requestsPerSecond, burst: limits.burst });
  // What the database knows, once for the whole installation: workers tell their own figures themselves.
  const metrics = new Shared(freshMs, async () => await renderMetrics(tools.inspector()));
  const gate: Gate = { hosts: resolved.hosts, maxUrl: limits.urlLength };

  async function handle(request: Request, place: Place, sender: Sender): Promise<Response> {
    try {
      return await respond(request, place, sender);
    } catch (error) {
      const problem = problemOf(error);
      if (problem !== undefined) return problemAnswer(problem);
      const id = randomUUID();
      logger.error(
        { err: error, id, method: request.method, path: place.inner },
        "the dashboard could not answer",
      );
      return problemAnswer(
        new Problem(500, "INTERNAL", `Something went wrong here. It was logged as ${id}.`),
      );
    }
  }

  async function respond(request: Request, place: Place, sender: Sender): Promise<Response> {
    checkHost(request, gate);
    const isApi = place.inner.startsWith("/api/");
    checkMethod(request.method, isApi);
    if (request.method === "POST") checkWriter(request, gate);
    else if (isApi || place.inner === "/metrics") checkReader(request);

    const visitor = await visitorOf(request, sender, resolved);
    const wait = rate.take(visitor.user ?? sender.address ?? "");
    if (wait > 0) {
      throw new Problem(429, "TOO_MANY_REQUESTS", "That was too much at once.", {
        hint: `Try again in ${wait} s.`,
        headers: { "retry-after": String(wait) },
      });
    }
    if (isApi)
      return await answerApi(request, place.inner.slice("/api/".length), {
        tools,
        visitor,
        bodyBytes: limits.bodyBytes,
      });
    const response = await answerPage(request, place);
    return request.method === "HEAD" ? new Response(null, response) : response;
  }

  async function answerPage(request: Request, place: Place): Promise<Response> {
    const { inner, base } = place;
    if (inner === "") {
      // Without the slash, the page's own links would lead beside the mount.
      return answer(null, 302, { ...noStore, location: `${base ?? ""}/${new URL(request.url).search}` });
    }
    if (inner === "/metrics") return metricsAnswer(await metrics.get());
    if (inner.startsWith("/assets/")) return await assets.file(inner.slice(1), request);
    return await assets.page(baseHref(place));
  }

  return {
    fetch: async (request) => await handle(request, placeOf(new URL(request.url).pathname, basePath), {}),
    node(req, res, next) {
      const place = nodePlace(req, basePath);
      // Not ours: the mount is known, and this is not below it.
      if (place === undefined && next !== undefined) return next();
      void answerNode(res, async () => {
        if (place === undefined)
          return problemAnswer(new Problem(404, "NOT_FOUND", "There is nothing here."));
        return await handle(toRequest(req), place, { req, address: req.socket.remoteAddress });
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

/** Whoever may look. Without `authorize` that is who sits at this machine, and the address alone does not prove it. */
async function visitorOf(request: Request, sender: Sender, { authorize }: ResolvedOptions): Promise<Visitor> {
  if (authorize === undefined) {
    const isLocal =
      isLoopbackAddress(sender.address) &&
      isLoopbackHost(hostOf(request)) &&
      !isForwarded(request) &&
      // No browser speaks it any more. nginx does to what it stands before, and by default says nothing else of itself.
      sender.req?.httpVersion !== "1.0";
    if (isLocal) return localVisitor;
    throw new Problem(
      403,
      "LOCAL_ONLY",
      "The dashboard was not told whom to let in, so it serves its own machine only.",
      {
        hint: "Pass authorize to createDashboard, or run `stint dashboard` with a token.",
      },
    );
  }
  const access = await authorize(request, sender.req === undefined ? {} : { req: sender.req });
  if (access !== null && access !== undefined) return toVisitor(access);
  const { challenge } = authorize;
  throw new Problem(401, "NOT_SIGNED_IN", "Sign in to see this.", {
    headers: challenge === undefined || challenge === "" ? {} : { "www-authenticate": challenge },
  });
}

function makeTools(options: ResolvedOptions): { tools: Tools; close: () => Promise<void> } {
  const { client, environment, redactor, limits } = options;
  let opened: Inspector | undefined;
  let closed = false;
  const inspector = (): Inspector => {
    if (closed) throw new Problem(503, "CLOSED", "The dashboard is closing.");
    opened ??= client.inspector();
    return opened;
  };
  const share = (name: Look): (() => Promise<unknown>) => {
    const shared = new Shared(freshMs, async () => await inspector()[name]());
    return async () => await shared.get();
  };
  const events = new Events(async () => await inspector().health(), limits);
  return {
    tools: {
      client,
      inspector,
      environment,
      redactor,
      events,
      looks: Object.fromEntries(looks.map((name) => [name, share(name)])) as Tools["looks"],
    },
    close: async () => {
      if (closed) return;
      closed = true;
      events.close();
      await opened?.close();
    },
  };
}
