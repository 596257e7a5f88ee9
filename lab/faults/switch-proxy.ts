import { carryAtOnce, startTcpProxy } from "../../packages/stint/test/support/tcp-proxy.ts";

/** One address for several servers, like a virtual IP that follows the primary. */
export type SwitchProxy = {
  readonly url: string;
  /** Leads new connections to this server. `keep` leaves open connections as they are; otherwise they are reset. */
  to(url: string, options?: { keep?: boolean }): void;
};

export async function startSwitchProxy(first: string): Promise<SwitchProxy> {
  let target = first;
  const { url, sockets } = await startTcpProxy(() => target, carryAtOnce);
  return {
    url,
    to(next, { keep = false } = {}) {
      target = next;
      if (!keep) for (const socket of sockets) socket.resetAndDestroy();
    },
  };
}
