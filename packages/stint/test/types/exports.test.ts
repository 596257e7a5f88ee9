import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { entryPoints } from "./entry-points.ts";

// The lists stand in entry-points.ts. An export that is added there is a promise to every application.
const packages = fileURLToPath(new URL("../../../", import.meta.url));

/** The names an entry point exports, read from its declarations: `export { a, type B } from "…"`, `export type { C } from "…"`. */
function exportsOf(declarations: string): { values: string[]; types: string[] } {
  const names = [...declarations.matchAll(/^export (type )?\{([^}]*)\}/gm)].flatMap(([, type, list = ""]) =>
    list
      .split(",")
      .map((item) => item.trim())
      .filter((item) => item !== "")
      .map((item) => ({
        isType: type !== undefined || item.startsWith("type "),
        name: item
          .replace(/^type /, "")
          .split(" as ")
          .at(-1)!,
      })),
  );
  const sorted = (wanted: boolean): string[] =>
    names
      .filter(({ isType }) => isType === wanted)
      .map(({ name }) => name)
      .sort();
  return { values: sorted(false), types: sorted(true) };
}

function manifestOf(name: string): { name: string; exports: Record<string, string | { types: string }> } {
  return JSON.parse(readFileSync(join(packages, name, "package.json"), "utf8")) as ReturnType<
    typeof manifestOf
  >;
}

const declared = ["stint", "dashboard"].flatMap((folder) => {
  const manifest = manifestOf(folder);
  return Object.entries(manifest.exports)
    .filter(([, target]) => typeof target !== "string")
    .map(([path, target]) => ({
      entry: path.replace(".", manifest.name),
      file: join(packages, folder, (target as { types: string }).types),
    }));
});

test("every entry point of both packages has a pinned list of exports", () => {
  expect(declared.map(({ entry }) => entry).sort()).toEqual(Object.keys(entryPoints).sort());
});

test.each(declared)("$entry exports exactly the pinned names", async ({ entry, file }) => {
  const text = readFileSync(file, "utf8");
  const pinned = entryPoints[entry];

  expect(text).not.toMatch(/^export (?!type \{|\{)/m);
  expect(exportsOf(text)).toEqual(pinned);
  expect(Object.keys((await import(entry)) as object).sort()).toEqual(pinned?.values);
});

test("stint/inspect loads in a browser: it imports nothing of Node", () => {
  const dist = join(packages, "stint/dist");
  const seen = new Set<string>();
  const visit = (name: string): void => {
    if (seen.has(name)) return;
    seen.add(name);
    for (const [, path = ""] of readFileSync(join(dist, name), "utf8").matchAll(/from "([^"]+)"/g)) {
      expect(path, `${name} imports ${path}`).toMatch(/^\.\.?\//);
      visit(join(name, "..", path));
    }
  };
  visit("inspect.js");

  expect([...seen].sort()).toEqual([
    "inspect.js",
    "inspect/quantities.js",
    "inspect/types.js",
    "model/figures.js",
    "model/liveness.js",
  ]);
});
