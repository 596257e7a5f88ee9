import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { parseSync, Visitor, type ESTree } from "vite";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const folders = ["packages/stint", "packages/dashboard", "bench", "lab", "examples"];
const longest = 80;

/** Words that hide the subject, and verbs that the code no longer uses. A name has a subject and a plain verb: returns, reports, releases, requeues. */
const unclear =
  /\b(?:nobody|somebody|whoever|anybody|told|tells?|says?|said|answer(?:s|ed)?|dear|hears?|heard|put ?back|hand(?:s|ed)? ?back|give(?:s|n)? ?back|glances?|beats?|deeds?|crew|slumber)\b/i;

function nameFaults(name: string): string[] {
  const word = unclear.exec(name)?.[0];
  return [
    ...(name.length > longest ? [`${name.length} characters`] : []),
    ...(word === undefined ? [] : [`"${word}"`]),
  ];
}

/** The names given to `test`, `it` and `describe` in a file, also through `.each` and `.skipIf`. */
function testNames(file: string, text: string): string[] {
  const names: string[] = [];
  new Visitor({
    CallExpression: ({ callee, arguments: [first] }) => {
      if (first !== undefined && /^(?:test|it|describe)$/.test(calledName(callee))) {
        if (first.type === "Literal" && typeof first.value === "string") names.push(first.value);
        if (first.type === "TemplateLiteral") names.push(text.slice(first.start + 1, first.end - 1));
      }
    },
  }).visit(parseSync(file, text).program);
  return names;
}

function calledName(node: ESTree.Node): string {
  if (node.type === "CallExpression") return calledName(node.callee);
  if (node.type === "MemberExpression") return calledName(node.object);
  return node.type === "Identifier" ? node.name : "";
}

test("every test name has at most 80 characters and no unclear words", () => {
  const files = folders
    .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && /\.test\.tsx?$/.test(entry.name))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((file) => !file.includes("node_modules/"));
  const names = files.flatMap((file) =>
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
