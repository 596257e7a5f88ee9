/** The package uses only its own code and the library's public API. */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const folder = fileURLToPath(new URL("../", import.meta.url));
const sources = readdirSync(`${folder}src`, { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".ts"))
  .map((name) => ({ name, text: readFileSync(`${folder}src/${name}`, "utf8") }));

test("the server imports only itself, Node and the library's entry points", () => {
  const imported = sources.flatMap(({ name, text }) =>
    [...text.matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)].map((match) => `${name}: ${match[1]}`),
  );
  expect(imported.length).toBeGreaterThan(40);
  expect(imported.filter((line) => !/: (?:\.{1,2}\/|node:|stint(?:\/inspect)?$)/.test(line))).toEqual([]);

  const manifest = JSON.parse(readFileSync(`${folder}package.json`, "utf8")) as Record<string, unknown>;
  expect(manifest["dependencies"]).toBeUndefined();
  expect(Object.keys(manifest["peerDependencies"] as object)).toEqual(["stint"]);
});

test("the server uses no table, no eval and no markup from values", () => {
  const forbidden = /\bstint\.(?:job|history|audit|worker)\b|\beval\(|new Function|child_process|innerHTML/;
  expect(sources.filter(({ text }) => forbidden.test(text)).map(({ name }) => name)).toEqual([]);
});

test("files stay small", () => {
  const large = sources.filter(({ text }) => text.split("\n").length > 250).map(({ name }) => name);
  expect(large).toEqual([]);
});
