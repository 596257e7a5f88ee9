import { get } from "node:http";

/** The response of a worker's health server. */
export type HealthResult = { readonly ok: boolean; readonly text: string };

const withinMs = 3_000;
const longestText = 1_000;

/** Request a path of a worker's health server, for containers without curl. Never throws: a failed request is not ok. */
export async function checkHealth(
  path: "/livez" | "/readyz",
  host: string,
  port: number,
): Promise<HealthResult> {
  return await new Promise((resolve) => {
    const failed = (why: string): void => resolve({ ok: false, text: why });
    const request = get(
      { host, port, path, signal: AbortSignal.timeout(withinMs), agent: false },
      (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (part: string) => (text = (text + part).slice(0, longestText)));
        response.on("error", (error) => failed(error.message));
        response.on("end", () => resolve({ ok: response.statusCode === 200, text: text.trim() }));
      },
    );
    request.on("error", (error) =>
      failed(error.name === "AbortError" ? `no response within ${withinMs / 1_000}s` : error.message),
    );
  });
}
