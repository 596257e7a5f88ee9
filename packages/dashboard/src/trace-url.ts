import { InvalidOptionError } from "stint";

const place = "{traceId}";

/**
 * Checks `traceUrl` once, because it becomes a link.
 *
 * @throws {InvalidOptionError} It is not an http(s) URL, or has no `{traceId}`.
 */
export function checkTraceUrl(given: unknown): string {
  const text = typeof given === "string" ? given : "";
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isWeb = url?.protocol === "https:" || url?.protocol === "http:";
  // Not in the user, password or host: an id in a job's meta could send the visitor to any host.
  const isFixed = isWeb && url.username + url.password === "" && !/[{}]|%7[BD]/i.test(url.host);
  const below = isFixed ? url.pathname + url.search + url.hash : "";
  if (below.replaceAll("%7B", "{").replaceAll("%7D", "}").includes(place)) return text;
  throw new InvalidOptionError(
    "createDashboard.traceUrl",
    `must be an http or https address with ${place} in its path or query, as "https://traces.example.com/trace/${place}"`,
  );
}
