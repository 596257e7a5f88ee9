import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export type Redis = {
  readonly pid: number;
  readonly port: number;
  readonly version: string;
  stop(): Promise<void>;
};

/** Start the `redis-server` on the PATH, with its log synced every second. Undefined if there is none. */
export async function startRedis(): Promise<Redis | undefined> {
  const version = await versionOf();
  if (version === undefined) return undefined;

  const folder = await mkdtemp(join(tmpdir(), "stint-bench-redis-"));
  const port = await freePort();
  const settings = [
    ["--port", String(port)],
    ["--bind", "127.0.0.1"],
    ["--dir", folder],
    ["--appendonly", "yes"],
    ["--appendfsync", "everysec"],
    ["--save", ""],
    ["--maxmemory-policy", "noeviction"],
  ];
  const child = spawn("redis-server", settings.flat(), { stdio: "ignore" });
  const end = (): void => {
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  };
  // Runs at every exit of this process except SIGKILL.
  process.once("exit", end);
  const exited = once(child, "exit");
  const stop = async (): Promise<void> => {
    child.kill("SIGKILL");
    await exited;
    end();
    process.off("exit", end);
  };
  for (let tries = 0; !(await isReady(port)); tries++) {
    if (tries === 100 || child.exitCode !== null) {
      await stop();
      throw new Error(`redis-server did not start on port ${port}`);
    }
    await sleep(50);
  }
  return { pid: child.pid ?? 0, port, version, stop };
}

async function versionOf(): Promise<string | undefined> {
  const child = spawn("redis-server", ["--version"], { stdio: ["ignore", "pipe", "ignore"] });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  return await new Promise((resolve) => {
    child.once("error", () => resolve(undefined));
    child.once("close", () => resolve(/v=(\S+)/.exec(text)?.[1]));
  });
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("no free port was found for Redis");
  return address.port;
}

async function isReady(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  return (await new Promise((resolve) => {
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
  }).finally(() => socket.destroy())) as boolean;
}
