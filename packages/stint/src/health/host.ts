import { isIP } from "node:net";

/**
 * Whether a server on the loopback address may respond to this Host header. A web page can point its own domain at 127.0.0.1 and read the
 * responses (DNS rebinding); the Host header then holds that domain. Addresses and names without a dot cannot be such a domain.
 */
export function isLocalName(header: string | undefined, more: readonly string[]): boolean {
  const name = (header ?? "").toLowerCase().replace(/:\d*$/, "");
  const bare = name.replace(/^\[(.*)\]$/, "$1");
  return isIP(bare) !== 0 || !name.includes(".") || name.endsWith(".localhost") || more.includes(name);
}

/** Whether a server that listens on this address can be reached from this machine only. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}
