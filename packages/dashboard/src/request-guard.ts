/** Checks of where a request comes from, before anybody asks who sent it. */
import { badRequest, Problem } from "./problem.ts";

export type RequestLimits = {
  /** Host names, with or without a port, under which the dashboard may be asked. Undefined: any. */
  readonly hosts: readonly string[] | undefined;
  readonly maxUrl: number;
};

/** The name under which the request was sent. */
export function hostOf(request: Request): string {
  return (request.headers.get("host") ?? new URL(request.url).host).toLowerCase();
}

/** Refuse names we were not told of: a page whose name was pointed at this address must get no answer (DNS rebinding). */
export function checkHost(request: Request, { hosts, maxUrl }: RequestLimits): void {
  if (request.url.length > maxUrl)
    throw new Problem(414, "URL_TOO_LONG", `The address is longer than ${maxUrl} characters.`);
  const host = hostOf(request);
  if (hosts === undefined || isListed(host, hosts)) return;
  throw new Problem(403, "HOST_REFUSED", "The dashboard does not answer under this host name.", {
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

/** Somebody stands between: the peer on this machine is a proxy, and whom it speaks for is not known. */
export function isForwarded(request: Request): boolean {
  return [...request.headers.keys()].some((name) => forwardedHeaders.test(name));
}

/** Data is for our own pages and for programs, not for other sites' pages. */
export function checkReader(request: Request): void {
  const site = request.headers.get("sec-fetch-site");
  if (site === null || site === "same-origin" || site === "none") return;
  throw crossSite();
}

/**
 * A browser sends along what proves who the visitor is, whichever page asked for it. So what changes something must
 * come from our own page, or from a program, which says so by a header that other sites' pages cannot send.
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
    throw new Problem(403, "CROSS_SITE", "It cannot be seen where this request comes from.", {
      hint: "Programs say that they are none of a browser's by sending the header x-stint: 1.",
    });
  }
}

function crossSite(): Problem {
  return new Problem(403, "CROSS_SITE", "Requests from pages of other sites are refused.", {
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

/** Counted while it comes: a sender may leave its length out, or lie about it. */
async function readText(body: Request["body"], maxBytes: number, tooLarge: Problem): Promise<string> {
  if (body === null) return "";
  const parts: Uint8Array[] = [];
  let bytes = 0;
  const reader = (body as ReadableStream<Uint8Array>).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    bytes += value.byteLength;
    // Not cancelled: that would end the connection before the sender has read why.
    if (bytes > maxBytes) throw tooLarge;
    parts.push(value);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(parts));
  } catch {
    throw badRequest("The body is not valid UTF-8.");
  }
}
