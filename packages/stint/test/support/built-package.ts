import { existsSync } from "node:fs";
import { chmod, copyFile, readFile, rename, rm, symlink } from "node:fs/promises";
import { join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import esbuild, { type Plugin } from "esbuild";
import { inject } from "vitest";
import { inLab } from "./lab.ts";

/** The folder of the package `stint`, as it is installed. */
export const installedPackage = fileURLToPath(new URL("../../", import.meta.url));
const dependencies = fileURLToPath(new URL("../../../../node_modules", import.meta.url));

/** What a process may load by its path or by its name. */
const entries = [
  "bin/stint.js",
  "dist/index.js",
  "dist/dev.js",
  "dist/inspect.js",
  "dist/opentelemetry.js",
  "dist/cli/dev/child.js",
  "dist/cli/processes/child.js",
];

/**
 * The package with its 400 modules in a few files, built once for a run: a process of the CLI takes half the CPU to start. The lab runs
 * the package as it is installed.
 */
export async function builtPackage(): Promise<string> {
  if (inLab) return installedPackage;
  const folder = join(`${inject("cluster")}-programs`, "stint");
  if (existsSync(folder)) return folder;
  const building = `${folder}.${process.pid}`;
  await esbuild.build({
    entryPoints: entries.map((entry) => join(installedPackage, entry)),
    outbase: installedPackage,
    outdir: building,
    bundle: true,
    splitting: true,
    platform: "node",
    format: "esm",
    packages: "external",
    plugins: [programsIn(folder)],
    logLevel: "error",
  });
  await copyFile(join(installedPackage, "package.json"), join(building, "package.json"));
  await chmod(join(building, "bin/stint.js"), 0o755);
  await symlink(dependencies, join(building, "node_modules"));
  // Another test file may do the same at the same time: a folder of this name is always complete.
  await rename(building, folder).catch(() => undefined);
  await rm(building, { recursive: true, force: true });
  return folder;
}

/** Modules that start a program beside them. Their code ends up elsewhere, from where the program's path is another. */
const programsIn = (folder: string): Plugin => ({
  name: "programs-by-path",
  setup(build) {
    build.onLoad({ filter: /\/dist\/cli\/.*\.js$/ }, async ({ path }) => {
      const own = pathToFileURL(join(folder, relative(installedPackage, path))).href;
      const text = await readFile(path, "utf8");
      return { contents: text.replaceAll("import.meta.url", JSON.stringify(own)), loader: "js" };
    });
  },
});
