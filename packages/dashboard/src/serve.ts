import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { InvalidOptionError } from "stint";
import type { Dashboard } from "./dashboard.ts";
import { refuseUnknown } from "./options.ts";

export type ServeOptions = {
  /** Default 4000. 0: any free port. */
  port?: number;
  /** Default 127.0.0.1. */
  host?: string;
  /** Uses another port if this one is in use, instead of failing. */
  orAnyPort?: boolean;
};

export type Served = {
  /** The URL for a browser. */
  readonly url: string;
  readonly port: number;
  /** Closes the server and its connections. The dashboard itself stays open. */
  close(): Promise<void>;
};

/** Serves only the dashboard, on its own port. */
export async function serveDashboard(dashboard: Dashboard, options: ServeOptions = {}): Promise<Served> {
  refuseUnknown("serveDashboard", options, ["port", "host", "orAnyPort"]);
  const { port = 4000, host = "127.0.0.1", orAnyPort = false } = options;
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw new InvalidOptionError("serveDashboard.port", "must be a whole number from 0 to 65535");
  const server = createServer(
    // How often Node checks its timeouts. With Node's default, a client with an unfinished header stays for 30 s.
    {
      maxHeaderSize: 16_384,
      requestTimeout: 30_000,
      headersTimeout: 10_000,
      connectionsCheckingInterval: 1_000,
    },
    // Express sets the same for a middleware that is mounted at the root.
    (req, res) => dashboard.node(Object.assign(req, { baseUrl: "" }), res),
  );
  try {
    await listen(server, port, host);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    if (!orAnyPort)
      throw new InvalidOptionError("port", `${port} is taken. Choose another, or 0 for any that is free`, {
        cause: error,
      });
    await listen(server, 0, host);
  }
  const bound = (server.address() as AddressInfo).port;
  const name = host.includes(":") ? `[${host}]` : host;
  return {
    url: `http://${name}:${bound}/`,
    port: bound,
    close: async () => {
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
    },
  };
}

async function listen(server: Server, port: number, host: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      // Without a listener, the error of a broken connection would end the process.
      server.on("error", () => undefined);
      resolve();
    });
  });
}
