import { isIP } from "node:net";

/**
 * Whether a request that calls the server so may be answered where only this machine can ask. A page in somebody's browser can have the
 * name of its own site lead to 127.0.0.1, and read what is answered there; that name then stands in the Host header. Addresses and names
 * without a dot cannot be such a site.
 */
export function isLocalName(header: string | undefined, more: readonly string[]): boolean {
  const name = (header ?? "").toLowerCase().replace(/:\d*$/, "");
  const bare = name.replace(/^\[(.*)\]$/, "$1");
  return isIP(bare) !== 0 || !name.includes(".") || name.endsWith(".localhost") || more.includes(name);
}

/** Whether only this machine can reach a server that listens there. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}
