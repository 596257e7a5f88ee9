import { execFile } from "node:child_process";
import { readFile, stat } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);

/** The folder of the peers' packages. */
export const peersFolder = new URL("../peers/", import.meta.url);

/** Node 24, from the npm package `node`. */
export const node24 = fileURLToPath(new URL("node_modules/node/bin/node", peersFolder));

/** Install the peers on the first run. They are not part of the workspace, so `npm install` does not download them. */
export async function installPeers(print: (line: string) => void): Promise<void> {
  if (await isInstalled()) return;
  print("Installing the peers and Node 24 into bench/peers (once) …");
  await run("npm", ["ci", "--prefix", fileURLToPath(peersFolder), "--no-audit", "--no-fund"]);
}

/** npm writes `node_modules/.package-lock.json` last: an interrupted install has none, and an install of other versions has an older one. */
async function isInstalled(): Promise<boolean> {
  const [wanted, installed] = await Promise.all(
    ["package-lock.json", "node_modules/.package-lock.json"].map(
      async (name) => await stat(new URL(name, peersFolder)).catch(() => undefined),
    ),
  );
  return installed !== undefined && (wanted?.mtimeMs ?? 0) <= installed.mtimeMs;
}

/** The version of each peer, and of Node 24. */
export async function peerVersions(): Promise<Record<string, string>> {
  const text = await readFile(new URL("package.json", peersFolder), "utf8");
  const { dependencies } = JSON.parse(text) as { dependencies: Record<string, string> };
  const { node, ...peers } = dependencies;
  return { ...peers, "node 24": node ?? "unknown" };
}
