import { respond } from "./respond.ts";
import { noStore } from "./headers.ts";

/** In the Prometheus text format. */
export function metricsResponse(text: string): Response {
  return respond(text, 200, { ...noStore, "content-type": "text/plain; version=0.0.4; charset=utf-8" });
}
