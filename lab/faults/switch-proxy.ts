import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** One address for several servers, as a virtual IP that follows the primary. */
export type SwitchProxy = {
  readonly url: string;
  /** Lead new connections to this server. `keep` leaves those that are open where they are; the others are reset. */
  to(url: string, options?: { keep?: boolean }): void;
};

export async function startSwitchProxy(first: string): Promise<SwitchProxy> {
  let target = new URL(first);
  const open = new Set<Socket>();
  const listener = createServer((client) => {
    const server = connect(Number(target.port), target.hostname);
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      open.add(socket);
      socket.setNoDelay(true);
      socket.on("data", (data: Buffer) => other.write(data));
      socket.on("error", () => other.destroy());
      socket.on("close", () => {
        open.delete(socket);
        other.destroy();
      });
    }
  });
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  onTestFinished(() => {
    for (const socket of open) socket.destroy();
    listener.close();
  });
  const own = new URL(first);
  own.hostname = "127.0.0.1";
  own.port = String((listener.address() as AddressInfo).port);
  return {
    url: own.href,
    to(url, { keep = false } = {}) {
      target = new URL(url);
      if (!keep) for (const socket of open) socket.resetAndDestroy();
    },
  };
}
