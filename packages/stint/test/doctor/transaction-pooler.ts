import { createConnection, createServer, type AddressInfo, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** A connection to the server. The first client that sends while it is free holds it until its transaction ends. */
type Backend = { socket: Socket; client: Socket | undefined; started: boolean };

/**
 * A pooler in transaction mode between clients and the server of this URL, as PgBouncer is one: after its login each client's
 * connection goes into the pool, and each transaction gets the first free one. Returns the URL to connect to.
 */
export async function transactionPooler(url: string): Promise<string> {
  const { hostname, port } = new URL(url);
  const pool: Backend[] = [];
  const clients = new Set<Socket>();
  const server = createServer((client) => {
    clients.add(client);
    client.on("error", () => undefined);
    const own = login(client, createConnection(Number(port), hostname));
    client.on("data", (data) => {
      if (!own.started) return own.socket.write(data);
      // Goodbye: the connection of the server stays.
      if (data[0] === 0x58) return client.end();
      const backend =
        pool.find((one) => one.client === client) ?? pool.find((one) => one.client === undefined);
      if (backend === undefined) throw new Error("no connection of the server is free");
      backend.client = client;
      return backend.socket.write(data);
    });
  });

  function login(client: Socket, socket: Socket): Backend {
    const backend: Backend = { socket, client, started: false };
    let rest = Buffer.alloc(0);
    socket.on("error", () => client.destroy());
    socket.on("data", (data) => {
      rest = Buffer.concat([rest, data]);
      while (rest.length >= 5 && rest.length >= 1 + rest.readInt32BE(1)) {
        const message = rest.subarray(0, 1 + rest.readInt32BE(1));
        rest = rest.subarray(message.length);
        // Messages that arrive while no client has the connection, such as notifications, are dropped.
        backend.client?.write(message);
        const isIdle = message[0] === 0x5a && message[5] === 0x49;
        if (!isIdle) continue;
        if (!backend.started) pool.push(backend);
        backend.started = true;
        backend.client = undefined;
      }
    });
    return backend;
  }

  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  onTestFinished(() => {
    server.close();
    for (const socket of [...clients, ...pool.map((one) => one.socket)]) socket.destroy();
  });
  const pooled = new URL(url);
  pooled.hostname = "127.0.0.1";
  pooled.port = String((server.address() as AddressInfo).port);
  return pooled.href;
}
