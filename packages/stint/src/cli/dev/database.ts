import { chmod, mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { startEmbedded } from "../../embedded/embedded.ts";
import { shownConnection } from "../../db/connection.ts";
import { devUrlFile, explicitUrl, type GlobalOptions } from "../context.ts";
import { say, type Output } from "../output.ts";

export type DevDatabase = {
  readonly url: string;
  /** Where it is, for people. */
  readonly where: string;
  stop(): Promise<void>;
};

/**
 * The database of `stint dev`: the given one, else its own Postgres in `.stint/`.
 *
 * Not the `database` of the config: dev migrates by itself, which must never happen to a database that stands
 * in a file for production.
 */
export async function openDevDatabase(
  globals: GlobalOptions,
  folder: string,
  out: Output,
): Promise<DevDatabase> {
  const url = explicitUrl(globals);
  if (url !== undefined) return { url, where: shownConnection(url), stop: async () => undefined };

  const note = devUrlFile(folder);
  const home = join(dirname(note), "postgres");
  await mkdir(dirname(note), { recursive: true });
  // Without this file the data would be committed with the project.
  await writeFile(join(dirname(note), ".gitignore"), "*\n");
  const server = await startEmbedded({ dataDir: home, onProgress: (line) => out.note(say`${line}`) });
  await writeFile(note, `${server.url}\n`, { mode: 0o600 });
  // The mode above counts only for a file that is new; one left by a crash may have another.
  await chmod(note, 0o600);
  return {
    url: server.url,
    where: `embedded in ${relative(process.cwd(), home) || home}, port ${server.port}`,
    async stop() {
      // Joined: another `stint dev` of this folder runs it, and still needs the note.
      if (!server.joined) await rm(note, { force: true });
      await server.stop();
    },
  };
}
