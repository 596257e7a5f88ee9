import { renderMetrics } from "stint";
import type { Inspector } from "stint/inspect";
import { Events } from "./events.ts";
import type { ResolvedOptions } from "./options.ts";
import { PayloadAudit } from "./payload-audit.ts";
import { Problem } from "./problem.ts";
import type { Tools } from "./route.ts";
import { onceOf, Shared } from "./shared.ts";

/** How long a result is shared by all viewers. */
const freshMs = 1_000;
/** How old a result may be for a scrape of /metrics: it may reuse the last read of an open page. */
const scrapedMs = 4_000;

type Made = { tools: Tools; metrics: () => Promise<string>; close: () => Promise<void> };

/** What routes need, and the metrics: one inspector, and reads that all viewers share. */
export function makeTools(options: ResolvedOptions): Made {
  const { client, environment, redactor, limits, traceUrl } = options;
  let opened: Inspector | undefined;
  let closed = false;
  const requireOpen = (): void => {
    if (closed) throw new Problem(503, "CLOSED", "The dashboard is closing.");
  };
  const inspector = (): Inspector => {
    requireOpen();
    return (opened ??= client.inspector());
  };
  const forgets: (() => void)[] = [];
  const shared = <Result>(read: (from: Inspector) => Promise<Result>) => {
    const results = new Shared(Math.min(freshMs, limits.refreshMs / 2), async () => await read(inspector()));
    forgets.push(() => results.forget());
    return async (youngerThanMs?: number): Promise<Result> => {
      requireOpen();
      return await results.get(youngerThanMs);
    };
  };
  // One read of the health for live updates, requests and scrapes.
  const health = shared(async (from) => await from.health());
  const stats = shared(async (from) => await from.stats());
  const stops = shared(async (from) => await from.stops());
  const capacity = shared(async (from) => await from.capacity());
  const toJson = onceOf<object, string>((result) => JSON.stringify(result));
  const asJson = (read: () => Promise<object>) => async (): Promise<string> => toJson(await read());
  const overviews: Tools["overviews"] = {
    health: asJson(health),
    stats: asJson(stats),
    kinds: asJson(shared(async (from) => await from.kinds())),
    tenants: asJson(shared(async (from) => await from.waitingTenants())),
    workers: asJson(shared(async (from) => await from.workers())),
    stops: asJson(stops),
    slow: asJson(shared(async (from) => await from.slow())),
    controls: asJson(shared(async (from) => await from.controls())),
  };
  const events = new Events(overviews.health, limits);
  // Created once, so that counters do not reset.
  const scraped = {
    health: async () => await health(scrapedMs),
    stats,
    capacity: async () => await capacity(),
    stops,
  };
  return {
    tools: {
      client,
      inspector,
      environment,
      traceUrl,
      redactor,
      payloadAudit: new PayloadAudit(options.onAudit),
      events,
      overviews,
      capacity,
      forgetOverviews: () => {
        for (const forget of forgets) forget();
      },
    },
    // Figures of the whole installation, from the database. Workers export their own metrics.
    metrics: async () => await renderMetrics(scraped),
    close: async () => {
      if (closed) return;
      closed = true;
      events.close();
      await opened?.close();
    },
  };
}
