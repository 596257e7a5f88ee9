import { noStore, securityHeaders } from "./headers.ts";
import type { Problem } from "./problem.ts";

export function respond(
  body: string | Uint8Array<ArrayBuffer> | ReadableStream | null,
  status: number,
  headers: Readonly<Record<string, string>>,
): Response {
  return new Response(body, { status, headers: { ...securityHeaders, ...headers } });
}

/** Dates become ISO strings. */
export function json(value: unknown, status = 200): Response {
  return jsonText(JSON.stringify(value), status);
}

export function jsonText(text: string, status = 200): Response {
  return respond(text, status, {
    ...noStore,
    "content-type": "application/json; charset=utf-8",
  });
}

export function problemResponse({ status, code, message, hint, headers }: Problem): Response {
  const body = { error: { code, message, ...(hint === undefined ? {} : { hint }) } };
  return respond(JSON.stringify(body), status, {
    ...noStore,
    "content-type": "application/json; charset=utf-8",
    ...headers,
  });
}
