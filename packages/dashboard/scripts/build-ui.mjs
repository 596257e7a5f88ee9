/**
 * Builds the UI into one module, dist/ui.js. A module is found wherever the package is: bundled, traced, on a read-only disk.
 * Skips the build if no input has changed.
 */
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname, extname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { brotliCompress, constants } from "node:zlib";

const home = fileURLToPath(new URL("..", import.meta.url));
const target = join(home, "dist", "ui.js");

const types = {
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** A hash of all inputs of the build. */
async function inputsHash() {
  const found = await readdir(join(home, "ui"), { recursive: true, withFileTypes: true });
  const sources = found.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const hash = createHash("sha256");
  for (const path of [
    ...sources.sort(),
    join(home, "package.json"),
    join(home, "vite.config.ts"),
    fileURLToPath(import.meta.url),
  ]) {
    hash.update(`${relative(home, path)}\0`).update(await readFile(path));
  }
  return hash.digest("hex");
}

async function packed(name, content) {
  const type = types[extname(name)];
  if (type === undefined) throw new Error(`build-ui: no content type is known for ${name}; add it to types.`);
  const bytes = await promisify(brotliCompress)(content, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: 10,
      [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
    },
  });
  return { type, brotli: bytes.toString("base64") };
}

const mark = `// Made by scripts/build-ui.mjs from ${await inputsHash()}\n`;
const present = await readFile(target, "utf8").catch(() => "");
if (present.startsWith(mark)) {
  process.stdout.write("The dashboard's UI is up to date.\n");
} else {
  const began = performance.now();
  const { build } = await import("vite");
  const { output } = await build({ configFile: join(home, "vite.config.ts"), logLevel: "warn" });

  const files = {};
  let html = "";
  for (const file of output) {
    const content = file.type === "chunk" ? file.code : file.source;
    if (file.fileName === "index.html") html = String(content);
    else files[file.fileName] = await packed(file.fileName, content);
  }
  if (!html.includes('<base href="__BASE__"')) throw new Error("build-ui: index.html lost its <base href>.");

  await mkdir(dirname(target), { recursive: true });
  // Written to a temporary file and renamed, so that a starting server never reads half a module.
  const aside = `${target}.${process.pid}`;
  const text = `${mark}export const files = ${JSON.stringify(files, null, 1)};\nexport const index = ${JSON.stringify({ html })};\n`;
  await writeFile(aside, text);
  await rename(aside, target);
  const took = ((performance.now() - began) / 1000).toFixed(1);
  process.stdout.write(`The dashboard's UI is built: ${Math.round(text.length / 1024)} kB, in ${took} s.\n`);
}
