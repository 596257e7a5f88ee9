import { chmod, mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { startEmbedded } from "../../embedded/embedded.ts";
import { shownConnection } from "../../db/connection.ts";
import { devUrlFile, explicitUrl, type GlobalOptions } from "../context.ts";
import { say, type Output } from "../output.ts";

export type DevDatabase = {
  readonly url: string;
  /** A readable location of the database. */
  readonly where: string;
  stop(): Promise<void>;
};

/**
 * The database of `stint dev`: the given one, or an embedded Postgres in `.stint/`.
 *
 * Never the `database` of the config: dev migrates automatically, which must not happen to a production database.
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
  // Without this .gitignore the data could be committed with the project.
  await writeFile(join(dirname(note), ".gitignore"), "*\n");
  const server = await startEmbedded({ dataDir: home, onProgress: (line) => out.note(say`${line}`) });
  await writeFile(note, `${server.url}\n`, { mode: 0o600 });
  // The mode above applies only to a new file; a file left by a crash may have another mode.
  await chmod(note, 0o600);
  return {
    url: server.url,
    where: `embedded in ${relative(process.cwd(), home) || home}, port ${server.port}`,
    async stop() {
      // Joined: another `stint dev` in this folder runs the server and still needs the file.
      if (!server.joined) await rm(note, { force: true });
      await server.stop();
    },
  };
}
