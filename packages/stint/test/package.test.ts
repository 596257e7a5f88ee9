import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { testFolder } from "./support/folder.ts";
import { slice } from "./support/lab.ts";

const run = promisify(execFile);
const folder = fileURLToPath(new URL("../", import.meta.url));

/** Paths of what would be published, asked once. */
const packed = run("npm", ["pack", "--dry-run", "--json"], { cwd: folder }).then(({ stdout }) => {
  const [result] = JSON.parse(stdout.slice(stdout.indexOf("[\n"))) as { files: { path: string }[] }[];
  return result!.files.map((file) => file.path);
});

test("the package has exactly the files it needs", async () => {
  const paths = await packed;

  expect(paths).toEqual(
    expect.arrayContaining([
      "package.json",
      "README.md",
      "LICENSE",
      "bin/stint.js",
      "dist/index.js",
      "dist/index.d.ts",
      "dist/dev.js",
      "dist/dev.d.ts",
      "dist/inspect.js",
      "dist/inspect.d.ts",
      "dist/opentelemetry.js",
      "dist/opentelemetry.d.ts",
      "dist/worker/lease-thread-code.js",
      "dist/db/migration-files.js",
      "dist/third-party-licenses.txt",
      ...readdirSync(`${folder}migrations`).map((name) => `migrations/${name}`),
    ]),
  );
  const own = /^(?:bin|dist|docs|migrations)\/|^(?:package\.json|README\.md|LICENSE)$/;
  expect(paths.filter((path) => !own.test(path) || /\btest\b|\.tsbuildinfo$/.test(path))).toEqual([]);
});

test("every link of a packed page leads to a packed file", async () => {
  const paths = new Set(await packed);
  const pages = [...paths].filter((path) => path.endsWith(".md"));
  const broken = pages.flatMap((page) =>
    [...readFileSync(`${folder}${page}`, "utf8").matchAll(/\]\(([^)\s]+)[^)]*\)/g)]
      .map(([, target = ""]) => target)
      .filter((target) => !/^(?:[a-z]+:|#)/i.test(target))
      .filter((target) => !paths.has(join(dirname(page), target.replace(/#.*$/, ""))))
      .map((target) => `${page}: ${target}`),
  );

  expect(pages).toContain("docs/guides/getting-started.md");
  expect(broken).toEqual([]);
});

test("the package can be required by CommonJS", async () => {
  const { stdout } = await run(
    process.execPath,
    [
      "--eval",
      `const { createStint, defineJob } = require("stint"); console.log(typeof createStint, typeof defineJob)`,
    ],
    { cwd: folder },
  );
  expect(stdout).toBe("function function\n");
});

const modules = [
  ["node20", ""],
  ["nodenext", ""],
  ["commonjs", "bundler"],
] as const;

test.each(slice(modules, ([module]) => module === "nodenext"))(
  "a CommonJS project with module %s compiles",
  async (module, moduleResolution) => {
    const project = await testFolder();
    await symlink(join(folder, "../../node_modules"), join(project, "node_modules"));
    await writeFile(join(project, "package.json"), `{ "type": "commonjs" }`);
    await writeFile(
      join(project, "index.ts"),
      `import { createStint } from "stint";\nexport default createStint;\n`,
    );
    const compilerOptions = {
      module,
      ...(moduleResolution === "" ? {} : { moduleResolution }),
      noEmit: true,
      strict: true,
      types: ["node"],
    };
    await writeFile(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["."] }));

    const tsc = join(folder, "../../node_modules/.bin/tsc");
    const errors = await run(tsc, ["--project", project, "--pretty", "false"]).then(
      () => "",
      (error: { stdout: string }) => error.stdout,
    );
    expect(errors).toBe("");
  },
);

test("importing the library loads nothing of the command line", async () => {
  const hooks = `export async function resolve(name, context, next) {
    if (/^(?:commander|jiti)\\b/.test(name)) throw new Error("it loads " + name);
    return await next(name, context);
  }`;
  const script = `import { register } from "node:module";
    register("data:text/javascript," + encodeURIComponent(${JSON.stringify(hooks)}));
    for (const name of ["stint", "stint/dev", "commander"])
      console.log(await import(name).then(() => "loaded", (error) => error.message));`;
  const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", script], { cwd: folder });

  expect(stdout).toBe("loaded\nloaded\nit loads commander\n");
});
