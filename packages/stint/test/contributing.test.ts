import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  scripts: Record<string, string>;
};
const page = readFileSync(join(root, "CONTRIBUTING.md"), "utf8");

/** The folders of the layout: each line is one, under the nearest line above it with less indentation. */
function layout(): string[] {
  const block = /^## Layout\n\n```\n(.*?)^```$/ms.exec(page)?.[1] ?? "";
  const open: { indent: number; path: string }[] = [];
  return [...block.matchAll(/^( *)(\S+\/) +\S/gm)].map(([, indent = "", name = ""]) => {
    while ((open.at(-1)?.indent ?? -1) >= indent.length) open.pop();
    const path = join(open.at(-1)?.path ?? "", name);
    open.push({ indent: indent.length, path });
    return path;
  });
}

function foldersIn(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => join(relative(root, entry.parentPath), entry.name, "/"));
}

test("every folder named in CONTRIBUTING.md exists", () => {
  const named = layout();
  expect(named.length).toBeGreaterThan(40);
  expect(
    named.filter((path) => !existsSync(join(root, path)) || !statSync(join(root, path)).isDirectory()),
  ).toEqual([]);
});

test("CONTRIBUTING.md names every folder of the sources", () => {
  const sources = ["packages/stint/src", "packages/dashboard/src", "packages/dashboard/ui"];
  const named = new Set(layout());
  expect(sources.flatMap(foldersIn).filter((path) => !named.has(path))).toEqual([]);
});

test("every file named in CONTRIBUTING.md exists", () => {
  const named = [...page.matchAll(/`((?:packages|docs|lab|bench|examples)\/[\w./-]+)`/g)].map(
    ([, path = ""]) => path,
  );
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([]);
});

/** Folders that send statements which other folders test, or none. */
const sameOnAnyPostgres = [
  "bundles",
  "cli",
  "client",
  "crash",
  "demo",
  "embedded",
  "fixtures",
  "health",
  "hot-path",
  "isolation",
  "pooler",
  "support",
  "tracing",
  "types",
  "worker",
];

test("npm run test:oldest runs every folder that tests SQL", () => {
  const paths = scripts["test:oldest"]!.split(" ").filter((word) => word.startsWith("packages/"));
  const folders = readdirSync(join(root, "packages/stint/test"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name !== "generated")
    .map(({ name }) => name);
  const listed = [...paths.map((path) => path.replace("packages/stint/test/", "")), ...sameOnAnyPostgres];
  expect(listed.toSorted()).toEqual(folders.toSorted());
});

test("npm run test:lab runs every file that has a slice in npm test", () => {
  const paths = scripts["test:lab"]!.split(" ").filter((word) => word.startsWith("packages/"));
  const sliced = ["packages/stint/src", "packages/stint/test", "packages/dashboard/test"]
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((name) =>
        join(folder, name),
      ),
    )
    .filter((file) => file.endsWith(".test.ts"))
    .filter((file) => /support\/(?:lab|built-package)\.ts"/.test(readFileSync(join(root, file), "utf8")));
  expect(sliced.length).toBeGreaterThan(50);
  expect(
    sliced.filter((file) => !paths.some((path) => file === path || file.startsWith(`${path}/`))),
  ).toEqual([]);
});
