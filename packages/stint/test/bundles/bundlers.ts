import { mkdir, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import * as commonjsPlugin from "@rollup/plugin-commonjs";
import * as jsonPlugin from "@rollup/plugin-json";
import { nodeResolve } from "@rollup/plugin-node-resolve";
import esbuild from "esbuild";
import { rollup, type Plugin } from "rollup";
import webpack from "webpack";
import { testFolder } from "../support/folder.ts";

export type BundleSettings = {
  entry: string;
  format: "esm" | "cjs";
  /** Whether the bundle holds the driver, or finds it in node_modules. */
  pg: "external" | "bundled";
};

// Their types are those of CommonJS, and what Node imports is not.
const commonjs = commonjsPlugin.default as unknown as (options: { ignoreTryCatch: boolean }) => Plugin;
const json = jsonPlugin.default as unknown as () => Plugin;

type Bundler = (settings: BundleSettings & { file: string; external: string[] }) => Promise<void>;

export const bundlers: Record<"esbuild" | "Rollup" | "webpack", Bundler> = {
  esbuild: async ({ entry, format, external, pg, file }) => {
    await esbuild.build({
      entryPoints: [entry],
      outfile: file,
      bundle: true,
      minify: true,
      platform: "node",
      format,
      external,
      logLevel: "error",
      // esbuild cannot turn the driver's `require` of Node's own modules into imports.
      ...(format === "esm" && pg === "bundled" ? { banner: { js: withRequire } } : {}),
    });
  },
  Rollup: async ({ entry, format, external, file }) => {
    const bundle = await rollup({
      input: entry,
      external: [...external, "pg-native"],
      plugins: [nodeResolve({ preferBuiltins: true }), commonjs({ ignoreTryCatch: true }), json()],
      logLevel: "silent",
    });
    await bundle.write({ file, format, inlineDynamicImports: true });
    await bundle.close();
  },
  webpack: async ({ entry, format, external, file }) => {
    const module = format === "esm";
    const compiler = webpack({
      entry,
      target: "node20",
      mode: "production",
      optimization: { minimize: false },
      externals: Object.fromEntries(
        external.map((name) => [name, `${module ? "module" : "commonjs"} ${name}`]),
      ),
      experiments: { outputModule: module },
      output: { path: dirname(file), filename: file.slice(dirname(file).length + 1), module },
    });
    const stats = await promisify(compiler.run.bind(compiler))();
    if (stats?.hasErrors() === true) throw new Error(stats.toString("errors-only"));
    await promisify(compiler.close.bind(compiler))();
  },
};

const withRequire = `import { createRequire } from "node:module"; const require = createRequire(import.meta.url);`;

/** Bundle a program into a folder that has nothing else but, if it is external, the driver. Returns the file. */
export async function bundle(name: keyof typeof bundlers, settings: BundleSettings): Promise<string> {
  const folder = await testFolder();
  const file = join(folder, settings.format === "esm" ? "worker.mjs" : "worker.cjs");
  const external = settings.pg === "external" ? ["pg"] : [];
  if (settings.pg === "external") {
    await mkdir(join(folder, "node_modules"));
    const pg = dirname(createRequire(import.meta.url).resolve("pg/package.json"));
    await symlink(pg, join(folder, "node_modules/pg"));
  }
  await bundlers[name]({ ...settings, file, external });
  return file;
}
