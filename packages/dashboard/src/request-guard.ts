/** Checks the origin of a request, before authorization. */
import { badRequest, Problem } from "./problem.ts";

export type RequestLimits = {
  /** Allowed host names, with or without a port. Undefined: any. */
  readonly hosts: readonly string[] | undefined;
  readonly maxUrl: number;
};

/** The name under which the request was sent. */
export function hostOf(request: Request): string {
  return (request.headers.get("host") ?? new URL(request.url).host).toLowerCase();
}

/** Refuses unknown host names: prevents DNS rebinding. */
export function checkHost(request: Request, { hosts, maxUrl }: RequestLimits): void {
  if (request.url.length > maxUrl)
    throw new Problem(414, "URL_TOO_LONG", `The address is longer than ${maxUrl} characters.`);
  const host = hostOf(request);
  if (hosts === undefined || isListed(host, hosts)) return;
  throw new Problem(403, "HOST_REFUSED", "This host name is not allowed.", {
    hint: "List the name in createDashboard({ hosts: [ … ] }).",
  });
}

function isListed(host: string, hosts: readonly string[]): boolean {
  return hosts.includes(host) || hosts.includes(withoutPort(host));
}

function withoutPort(host: string): string {
  return host.replace(/:\d{1,5}$/, "");
}

/** localhost, *.localhost, 127.x.x.x and [::1]: names that no DNS server can point elsewhere. */
export function isLoopbackHost(host: string): boolean {
  const name = withoutPort(host);
  return (
    name === "localhost" ||
    name === "[::1]" ||
    /^[a-z0-9-]{1,63}\.localhost$/.test(name) ||
    /^127(?:\.\d{1,3}){3}$/.test(name)
  );
}

export function isLoopbackAddress(address: string | undefined): boolean {
  if (address === undefined) return false;
  const plain = address.replace(/^::ffff:/i, "");
  return plain === "::1" || /^127(?:\.\d{1,3}){3}$/.test(plain);
}

const forwardedHeaders =
  /^(?:forwarded|via|x-(?:forwarded|real-ip|client-ip|original|envoy).*|(?:cf|true-client|fastly-client|fly-client)-.*|cdn-loop)$/;

/** The request came through a proxy, so the peer address is not the client's. */
export function isForwarded(request: Request): boolean {
  return [...request.headers.keys()].some((name) => forwardedHeaders.test(name));
}

/** Data is served to the dashboard's own pages and to non-browser clients only. */
export function checkReader(request: Request): void {
  const site = request.headers.get("sec-fetch-site");
  if (site === null || site === "same-origin" || site === "none") return;
  throw crossSite();
}

/**
 * Prevents cross-site request forgery: a browser sends credentials whichever page made the request. A write must come from the
 * dashboard's own page, or carry a header that pages of other sites cannot send.
 */
export function checkWriter(request: Request, { hosts }: RequestLimits): void {
  const type = request.headers.get("content-type")?.split(";")[0]?.trim().toLowerCase();
  if (type !== "application/json")
    throw new Problem(415, "NOT_JSON", "The body must be JSON.", {
      hint: "Send content-type: application/json.",
    });

  const site = request.headers.get("sec-fetch-site");
  if (site !== null && site !== "same-origin") throw crossSite();
  const origin = request.headers.get("origin");
  if (origin !== null) {
    const from = URL.canParse(origin) ? new URL(origin).host.toLowerCase() : "";
    if (from === "" || (from !== hostOf(request) && !(hosts !== undefined && isListed(from, hosts))))
      throw crossSite();
    return;
  }
  if (site === null && request.headers.get("x-stint") !== "1") {
    throw new Problem(403, "CROSS_SITE", "Cannot determine the origin of this request.", {
      hint: "Non-browser clients must send the header x-stint: 1.",
    });
  }
}

function crossSite(): Problem {
  return new Problem(403, "CROSS_SITE", "Requests from other sites are refused.", {
    hint: "Behind a proxy that changes the Host header, list the public name in createDashboard({ hosts: [ … ] }).",
  });
}

/** Read the body of a POST as an object, within its limit. */
export async function readBody(request: Request, maxBytes: number): Promise<Record<string, unknown>> {
  const tooLarge = new Problem(413, "BODY_TOO_LARGE", `The body is larger than ${maxBytes} bytes.`);
  if (Number(request.headers.get("content-length") ?? 0) > maxBytes) throw tooLarge;
  const text = await readText(request.body, maxBytes, tooLarge);
  let value: unknown;
  try {
    value = text === "" ? {} : JSON.parse(text);
  } catch {
    throw badRequest("The body is not valid JSON.");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw badRequest("The body must be a JSON object.");
  return value as Record<string, unknown>;
}

/** Counts the bytes received: content-length may be missing or wrong. */
async function readText(body: Request["body"], maxBytes: number, tooLarge: Problem): Promise<string> {
  if (body === null) return "";
  const parts: Uint8Array[] = [];
  let bytes = 0;
  const reader = (body as ReadableStream<Uint8Array>).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    bytes += value.byteLength;
    // Not cancelled: cancelling would close the connection before the client has read the error.
    if (bytes > maxBytes) throw tooLarge;
    parts.push(value);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(parts));
  } catch {
    throw badRequest("The body is not valid UTF-8.");
  }
}
