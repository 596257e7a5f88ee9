/**
 * Writes the modules of dist/ that hold files as text, so that they are there wherever the library is: bundled, traced, packed
 * into one executable. A bundler follows imports only; a path next to `import.meta.url` leads nowhere in a bundle.
 *
 * - dist/worker/lease-thread-code.js: the program of the lease thread with everything it imports, the driver included.
 * - dist/worker/isolation/isolated-child-code.js: the program of a handler that runs in its own thread or process.
 * - dist/db/migration-files.js: migrations/*.sql.
 *
 * Leaves a file alone whose content is the same.
 */
import { mkdir, readdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const home = fileURLToPath(new URL("..", import.meta.url));
const dist = join(home, "dist");

await Promise.all([embedLeaseThread(), embedIsolatedChild(), embedMigrations()]);

async function embedLeaseThread() {
  const { outputFiles, metafile } = await bundle("src/worker/lease-thread.ts");
  await write("worker/lease-thread-code.js", moduleOf("code", outputFiles[0].text));
  await write("third-party-licenses.txt", await licensesOf(Object.keys(metafile.inputs)));
}

async function embedIsolatedChild() {
  const { outputFiles } = await bundle("src/worker/isolation/child.ts");
  await write("worker/isolation/isolated-child-code.js", moduleOf("code", outputFiles[0].text));
}

/** A program with everything it imports, as CommonJS. */
async function bundle(entry) {
  return await build({
    entryPoints: [join(home, entry)],
    absWorkingDir: home,
    bundle: true,
    write: false,
    metafile: true,
    platform: "node",
    format: "cjs",
    target: "node20.19",
    // Names stay, for the stack of an error in the thread.
    minifyWhitespace: true,
    minifySyntax: true,
    legalComments: "none",
    // On Node 20 the driver makes a Response to find out where it runs, which loads the whole of fetch: a third of the thread's start.
    define: { Response: "undefined" },
    logLevel: "warning",
  });
}

async function embedMigrations() {
  const folder = join(home, "migrations");
  const names = (await readdir(folder)).filter((name) => name.endsWith(".sql")).sort();
  const entries = await Promise.all(
    names.map(async (name) => [name, await readFile(join(folder, name), "utf8")]),
  );
  await write("db/migration-files.js", moduleOf("files", Object.fromEntries(entries)));
}

function moduleOf(name, value) {
  return `// Written by scripts/embed.mjs.\nexport const ${name} = ${JSON.stringify(value, null, 1)};\n`;
}

/** The licenses of the packages that the lease thread's program contains ask to be passed on with it. */
async function licensesOf(inputs) {
  const folders = new Set(
    inputs.flatMap((path) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []),
  );
  const texts = await Promise.all(
    [...folders].map(async (folder) => {
      const { name, version, license } = JSON.parse(
        await readFile(join(home, folder, "package.json"), "utf8"),
      );
      const file = (await readdir(join(home, folder))).find((entry) => /^licen[cs]e/i.test(entry));
      const text = file === undefined ? "" : await readFile(join(home, folder, file), "utf8");
      return `${name} ${version} (${license})\n\n${text.trim()}\n`;
    }),
  );
  const head = "dist/worker/lease-thread-code.js contains code of these packages.\n";
  return [head, ...texts].join("\n---\n\n");
}

/** Written aside and moved, so that a process that starts meanwhile never reads half a module. */
async function write(name, text) {
  const target = join(dist, name);
  if ((await readFile(target, "utf8").catch(() => undefined)) === text) return;
  await mkdir(dirname(target), { recursive: true });
  const aside = `${target}.${process.pid}`;
  await writeFile(aside, text);
  await rename(aside, target);
}
