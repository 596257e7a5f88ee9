import { carryAtOnce, startTcpProxy } from "../../../../stint/test/support/tcp-proxy.ts";

/** A TCP proxy that can stop passing bytes on while every connection stays open: the server looks stopped, not gone. */
export type HoldingProxy = {
  readonly url: string;
  /** Stop passing bytes on: on open connections and, unless `openOnly` is set, on new ones. */
  hold(openOnly?: boolean): void;
  release(): void;
};

export async function startHoldingProxy(target: string): Promise<HoldingProxy> {
  let holding = false;
  const { url, sockets } = await startTcpProxy(
    () => new URL("/", target).href,
    (direction) => {
      carryAtOnce(direction);
      if (holding) direction.from.pause();
    },
  );
  return {
    url,
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
