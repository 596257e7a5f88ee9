import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../../../", import.meta.url));

/** The TypeScript blocks of a page. A block that begins with `// name.ts` is that file, so that others can import it. */
function blocksOf(markdown: string): { name: string; code: string }[] {
  return [...markdown.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = ""], index) => ({
    name: /^\/\/ ([\w.-]+\.ts)$/m.exec(code.split("\n")[0] ?? "")?.[1] ?? `block-${index + 1}.ts`,
    code: `${code}\nexport {};\n`,
  }));
}

test("every TypeScript block in the README and the guides compiles", async () => {
  // Inside the repository, so that the packages they import are found.
  const folder = join(root, "packages/stint/test/generated");
  await rm(folder, { recursive: true, force: true });
  const guides = (await readdir(join(root, "docs/guides"))).map((name) => join("docs/guides", name));
  let blocks = 0;
  for (const page of ["README.md", ...guides]) {
    for (const { name, code } of blocksOf(await readFile(join(root, page), "utf8"))) {
      const file = join(folder, page.replaceAll(/\W/g, "-"), name);
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, code);
      blocks += 1;
    }
  }
  const config = {
    extends: "../../../../tsconfig.base.json",
    compilerOptions: { noEmit: true, noUnusedLocals: false },
    include: ["."],
  };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));

  const tsc = join(root, "node_modules/.bin/tsc");
  const errors = await promisify(execFile)(tsc, ["--project", folder, "--pretty", "false"]).then(
    () => "",
    (error: { stdout: string }) => error.stdout,
  );

  expect(errors).toBe("");
  expect(blocks).toBeGreaterThan(8);
  await rm(folder, { recursive: true, force: true });
});
