import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { onTestFinished } from "vitest";
import { testDatabaseUrl } from "./database.ts";

/** A way to the test database on which every round trip takes this much longer, as to a server in another zone. */
export async function startSlowProxy({
  roundTripMs,
  url = testDatabaseUrl(),
}: {
  roundTripMs: number;
  url?: string;
}): Promise<string> {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  // One timer per chunk keeps their order: timers of one length fire in the order they were set.
  const carry = (from: Socket, to: Socket): void => {
    from.on("data", (data: Buffer) => setTimeout(() => to.writable && to.write(data), roundTripMs / 2));
  };
  const listener = createServer((client) => {
    const server = connect(Number(target.port), target.hostname);
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => other.destroy());
      socket.on("close", () => {
        sockets.delete(socket);
        setTimeout(() => other.destroy(), roundTripMs);
      });
    }
    carry(client, server);
    carry(server, client);
  });
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    listener.close();
  });
  const own = new URL(url);
  own.hostname = "127.0.0.1";
  own.port = String((listener.address() as AddressInfo).port);
  return own.href;
}
