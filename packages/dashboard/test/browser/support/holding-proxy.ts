import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** A TCP proxy that can stop passing bytes on while every connection stays open: the server looks stopped, not gone. */
export type HoldingProxy = {
  readonly url: string;
  /** Pass on nothing more: on open connections, and unless `openOnly` is set on new ones. */
  hold(openOnly?: boolean): void;
  release(): void;
};

export async function startHoldingProxy(target: string): Promise<HoldingProxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let holding = false;
  const listener = createServer((client) => {
    const server = connect(Number(port), hostname);
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      sockets.add(from);
      from.on("data", (bytes) => to.write(bytes));
      from.on("error", () => to.destroy());
      from.on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
      if (holding) from.pause();
    }
  });
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    listener.close();
  });
  return {
    url: `http://127.0.0.1:${(listener.address() as AddressInfo).port}/`,
    hold(openOnly = false) {
      holding = !openOnly;
      for (const socket of sockets) socket.pause();
    },
    release() {
      holding = false;
      for (const socket of sockets) socket.resume();
    },
  };
}
