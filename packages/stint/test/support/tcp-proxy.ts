import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** One direction of a connection: what `from` receives is meant for `to`. */
export type Direction = { readonly from: Socket; readonly to: Socket };

export type TcpProxy = {
  /** The address of the first target, with the proxy's host and port. */
  readonly url: string;
  /** The open sockets, of clients and of servers. */
  readonly sockets: ReadonlySet<Socket>;
};

/** Accepts connections for the server of `target`, and has `carry` pass on each direction. It is closed when the test ends. */
export async function startTcpProxy(
  target: () => string,
  carry: (direction: Direction) => void,
): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  const listener = createServer((client) => {
    const { port, hostname } = new URL(target());
    const server = connect(Number(port), hostname);
    for (const direction of [
      { from: client, to: server },
      { from: server, to: client },
    ]) {
      const { from, to } = direction;
      sockets.add(from);
      // Without it, a message in several parts waits for the delayed acknowledgement of the first.
      from.setNoDelay(true);
      from.on("error", () => to.destroy());
      from.on("close", () => sockets.delete(from));
      carry(direction);
    }
  });
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    listener.close();
  });
  const own = new URL(target());
  own.hostname = "127.0.0.1";
  own.port = String((listener.address() as AddressInfo).port);
  return { url: own.href, sockets };
}

/** Passes bytes on at once, and the end of the connection. */
export function carryAtOnce({ from, to }: Direction): void {
  from.on("data", (data: Buffer) => to.write(data));
  from.on("close", () => to.destroy());
}
