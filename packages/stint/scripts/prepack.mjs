/**
 * Copies what npm shows and packs from the root of the repository: README.md, LICENSE and the pages of docs/. A link to something that
 * is not packed (an image, an example, a result) would lead nowhere, so its text stays and the link goes.
 */
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join, normalize, relative } from "node:path";
import { fileURLToPath } from "node:url";

const home = fileURLToPath(new URL("..", import.meta.url));
const root = join(home, "../..");

const found = await readdir(join(root, "docs"), { recursive: true, withFileTypes: true });
const docs = found
  .filter((entry) => entry.isFile() && entry.name.endsWith(".md"))
  .map((entry) => relative(root, join(entry.parentPath, entry.name)));
const pages = new Set(["README.md", ...docs]);

await rm(join(home, "docs"), { recursive: true, force: true });
for (const page of pages) {
  await mkdir(dirname(join(home, page)), { recursive: true });
  await writeFile(join(home, page), withoutBrokenLinks(page, await readFile(join(root, page), "utf8")));
}
await copyFile(join(root, "LICENSE"), join(home, "LICENSE"));

function withoutBrokenLinks(page, text) {
  const isPacked = (target) => {
    if (/^(?:[a-z]+:|#)/i.test(target)) return true;
    const path = normalize(join(dirname(page), target.replace(/#.*$/, "")));
    return pages.has(path) || path === "LICENSE" || /^(?:migrations|dist)\//.test(path);
  };
  return text
    .replaceAll(/!\[[^\]]*\]\(([^)\s]+)[^)]*\)\n?/g, (image, target) => (isPacked(target) ? image : ""))
    .replaceAll(/\[([^\]]*)\]\(([^)\s]+)[^)]*\)/g, (link, label, target) =>
      isPacked(target) ? link : label,
    );
}
