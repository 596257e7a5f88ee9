import { stat } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { resolveConfig, type ResolvedConfig, type StintConfig } from "../config.ts";
import { InvalidOptionError } from "../errors.ts";

export type ConfigFile = ResolvedConfig & { readonly path: string };

export const configNames = ["stint.config.ts", "stint.config.js", "stint.config.mjs"] as const;

/** Where the config is: the given path, or one of the names in the working folder, or nowhere. Parents are not searched. */
export async function findConfig(given: string | undefined): Promise<string | undefined> {
  if (given !== undefined) {
    const path = resolve(given);
    if (await isFile(path)) return path;
    throw new InvalidOptionError("--config", `must be the path of a config file; there is none at ${path}`);
  }
  for (const name of configNames) {
    const path = join(process.cwd(), name);
    if (await isFile(path)) return path;
  }
  return undefined;
}

/**
 * Load a config file, TypeScript or not.
 *
 * @throws {InvalidOptionError} Any user may write to it, it throws, or what it exports is not a config.
 */
export async function loadConfig(path: string): Promise<ConfigFile> {
  await refuseWritableByAll(path);
  const name = basename(path);
  const config = await importDefault(path).catch((error: unknown) => {
    const detail = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    throw new InvalidOptionError(name, `could not be loaded (${detail})`, { cause: error });
  });
  return { path, ...resolveConfig(config as StintConfig, name) };
}

async function importDefault(path: string): Promise<unknown> {
  const { createJiti } = await import("jiti");
  const jiti = createJiti(path, {
    // The shared cache may lie in a temp folder that others write to, and its contents are run.
    fsCache: false,
    // A second copy of the library would make PermanentError a class that our worker does not know.
    nativeModules: ["stint"],
    tsconfigPaths: true,
  });
  const module = await jiti.import<{ default?: unknown }>(path);
  // Asked by its keys: read as a property, a default that is missing would be the module itself.
  if (!Object.keys(module).includes("default")) {
    throw new InvalidOptionError(
      basename(path),
      "has no default export; write `export default defineConfig({ … })`",
    );
  }
  return module.default;
}

/** The config is code, and runs with the rights of the user who runs the CLI. */
async function refuseWritableByAll(path: string): Promise<void> {
  const { mode } = await stat(path);
  if (process.platform === "win32" || (mode & 0o002) === 0) return;
  throw new InvalidOptionError(
    basename(path),
    `can be changed by every user of this machine, so it is not run. Do \`chmod o-w ${path}\` first`,
  );
}

async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isFile() ?? false;
}
