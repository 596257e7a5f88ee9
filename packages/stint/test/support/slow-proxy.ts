import { testDatabaseUrl } from "./database.ts";
import { startTcpProxy } from "./tcp-proxy.ts";

/** A proxy to the test database that adds this much to every round trip, like a server in another zone. Returns its URL. */
export async function startSlowProxy({
  roundTripMs,
  url = testDatabaseUrl(),
}: {
  roundTripMs: number;
  url?: string;
}): Promise<string> {
  const proxy = await startTcpProxy(
    () => url,
    ({ from, to }) => {
      // One timer per chunk keeps their order: timers of one length fire in the order they were set.
      from.on("data", (data: Buffer) => setTimeout(() => to.writable && to.write(data), roundTripMs / 2));
      from.on("close", () => setTimeout(() => to.destroy(), roundTripMs));
    },
  );
  return proxy.url;
}
