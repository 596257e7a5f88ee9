/** Converts between Node's requests and responses and those of the web. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { problemResponse } from "./respond.ts";
import { mountFromStripped, mountOf, type Mount } from "./mount.ts";
import { Problem } from "./problem.ts";

/** Properties added by frameworks. */
type Framed = IncomingMessage & { originalUrl?: string; baseUrl?: string; body?: unknown };

/** Undefined: the path is not below the configured base path. */
export function nodeMount(req: Framed, basePath: string): Mount | undefined {
  const path = pathOf(req.url ?? "/");
  const original = pathOf(req.originalUrl ?? req.url ?? "/");
  if (original !== path) return mountFromStripped(path, original);
  if (req.baseUrl === "" && basePath === "") return { base: "", inner: path };
  if (basePath !== "" && path !== basePath && !path.startsWith(`${basePath}/`)) return undefined;
  return mountOf(path, basePath);
}

function pathOf(url: string): string {
  return url.split(/[?#]/, 1)[0] ?? "/";
}

/** @throws {Problem} Host and path of the request form no valid URL. */
export function toRequest(req: Framed): Request {
  const target = req.originalUrl ?? req.url ?? "/";
  const host = req.headers.host ?? req.headers[":authority"]?.toString() ?? "";
  const address = `http://${host}${target}`;
  // A path of "//other.example/" would be taken for another host wherever it is used as a link.
  if (!/^\/(?![/\\])/.test(target) || !/^[\w.:[\]-]{1,255}$/.test(host) || !URL.canParse(address))
    throw new Problem(400, "BAD_REQUEST", "The address or the Host header cannot be read.");
  const headers = new Headers();
  for (let index = 0; index + 1 < req.rawHeaders.length; index += 2) {
    const name = req.rawHeaders[index] ?? "";
    if (!name.startsWith(":")) headers.append(name, req.rawHeaders[index + 1] ?? "");
  }
  const method = req.method ?? "GET";
  const url = new URL(address);
  if (method === "GET" || method === "HEAD") return new Request(url, { method, headers });
  try {
    return new Request(url, { method, headers, body: bodyOf(req), duplex: "half" });
  } catch {
    // `new Request` refuses CONNECT, TRACE and TRACK.
    throw new Problem(405, "METHOD_NOT_ALLOWED", "This takes GET and POST only.", {
      headers: { allow: "GET, POST" },
    });
  }
}

/** A body parser of the framework may have consumed the stream; its parsed value is used then. */
function bodyOf(req: Framed): ReadableStream | string {
  const { body } = req;
  if (body === undefined) return req.readableEnded ? "" : (Readable.toWeb(req) as ReadableStream);
  if (typeof body === "string") return body;
  return Buffer.isBuffer(body) ? body.toString("utf8") : JSON.stringify(body);
}

/** Writes the response. Never rejects: a failure here is a closed socket, and a rejection would end the process. */
export async function respondNode(
  res: ServerResponse,
  handle: () => Promise<Response>,
  longestStillMs = 60_000,
): Promise<void> {
  await write(res, handle, longestStillMs).catch(() => res.destroy());
}

async function write(
  res: ServerResponse,
  handle: () => Promise<Response>,
  longestStillMs: number,
): Promise<void> {
  let response: Response;
  try {
    response = await handle();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    response = problemResponse(error);
  }
  res.statusCode = response.status;
  // The rest of a body that is too large is not read.
  if (response.status === 413) res.setHeader("connection", "close");
  for (const [name, value] of response.headers) {
    // Earlier middleware may have set cookies.
    if (name === "set-cookie") res.appendHeader(name, value);
    else res.setHeader(name, value);
  }
  const reader = response.body?.getReader();
  if (reader === undefined) {
    res.end();
    return;
  }
  // The client disconnected during authorization; no close event will follow.
  if (res.destroyed) {
    await reader.cancel();
    return;
  }
  // Cancelled at once, not at the next event: an endless stream would otherwise keep its slot for ever.
  res.once("close", () => void reader.cancel().catch(() => undefined));
  // Drops clients that do not read. Live updates send something more often than this.
  res.setTimeout(longestStillMs, () => res.destroy());
  res.flushHeaders();
  for (;;) {
    const { done, value } = await reader.read();
    if (done || res.destroyed) break;
    if (!res.write(value)) await drained(res);
  }
  res.end();
}

async function drained(res: ServerResponse): Promise<void> {
  await new Promise<void>((resolve) => {
    const done = (): void => {
      res.off("drain", done);
      res.off("close", done);
      resolve();
    };
    res.once("drain", done);
    res.once("close", done);
  });
}
