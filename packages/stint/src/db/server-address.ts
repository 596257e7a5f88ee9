import { toClientConfig, type Connection } from "./connection.ts";

export type ServerAddress = { readonly address: string; readonly port: number | undefined };

/** Host and port of the server, for traces; empty if only the driver's defaults apply. Never a user or a password. */
export function serverAddress(connection: Connection): ServerAddress | undefined {
  const { connectionString, host, port } = toClientConfig(connection);
  if (connectionString === undefined) return host === undefined ? undefined : at(host, port);
  if (!URL.canParse(connectionString)) return undefined;
  const url = new URL(connectionString);
  const name = url.searchParams.get("host") ?? decodeURIComponent(url.hostname);
  return name === "" ? undefined : at(name, url.port === "" ? undefined : Number(url.port));
}

/** A path is a Unix socket, which has no port. */
function at(host: string, port: number | undefined): ServerAddress {
  return { address: host, port: host.startsWith("/") ? undefined : (port ?? 5432) };
}
