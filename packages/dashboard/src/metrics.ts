import { answer } from "./answer.ts";
import { noStore } from "./headers.ts";

/** In the Prometheus text format. */
export function metricsAnswer(text: string): Response {
  return answer(text, 200, { ...noStore, "content-type": "text/plain; version=0.0.4; charset=utf-8" });
}
