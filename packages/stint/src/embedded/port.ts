import { randomInt } from "node:crypto";
import { createServer } from "node:net";
import { InvalidOptionError } from "../errors.ts";

export function checkPort(port: number | undefined): void {
  if (port === undefined || (Number.isInteger(port) && port >= 1 && port <= 65_535)) return;
  throw new InvalidOptionError(
    "port",
    `${port} is not a port. Use a whole number from 1 to 65535, or leave it out.`,
  );
}

/** The preferred port if it is free, else another free one. Another process may take it before it is used; then try again. */
export async function choosePort(preferred: number | undefined): Promise<number> {
  if (preferred !== undefined && (await isFree(preferred))) return preferred;
  for (let tries = 0; tries < 50; tries += 1) {
    // Below the range of ephemeral ports: otherwise an outgoing connection could occupy the port of a server that is briefly
    // down.
    const port = randomInt(20_000, 32_000);
    if (await isFree(port)) return port;
  }
  throw new Error("fifty ports in a row between 20000 and 32000 were in use");
}

async function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ port, host: "127.0.0.1", exclusive: true }, () => server.close(() => resolve(true)));
  });
}
