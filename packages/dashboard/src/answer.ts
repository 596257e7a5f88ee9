import { noStore, securityHeaders } from "./headers.ts";
import type { Problem } from "./problem.ts";

export function answer(
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
  return answer(text, status, {
    ...noStore,
    "content-type": "application/json; charset=utf-8",
  });
}

export function problemAnswer({ status, code, message, hint, headers }: Problem): Response {
  const body = { error: { code, message, ...(hint === undefined ? {} : { hint }) } };
  return answer(JSON.stringify(body), status, {
    ...noStore,
    "content-type": "application/json; charset=utf-8",
    ...headers,
  });
}
