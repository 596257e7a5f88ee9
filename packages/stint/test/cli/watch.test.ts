import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { watchCode } from "#stint/cli/dev/watch.js";
import { testFolder } from "../support/folder.ts";
import { until } from "../support/until.ts";

test("only code is watched, and a burst of changes is reported once, by its first", async () => {
  const folder = await testFolder();
  for (const name of ["src", "node_modules", "dist", ".git", ".stint"]) await mkdir(join(folder, name));
  const changes: string[] = [];
  onTestFinished(await watchCode(folder, (file) => changes.push(file)));

  for (const name of [
    "node_modules/a.js",
    "dist/a.js",
    ".git/a.js",
    ".stint/a.js",
    "src/data.json",
    "out.log",
  ]) {
    await writeFile(join(folder, name), "1");
  }
  await writeFile(join(folder, "src/a.ts"), "1");
  await writeFile(join(folder, "src/b.ts"), "1");
  await until(() => changes.length > 0);

  expect(changes).toEqual(["src/a.ts"]);
});

test("code in a folder created later is watched", async () => {
  const folder = await testFolder();
  const changes: string[] = [];
  onTestFinished(await watchCode(folder, (file) => changes.push(file)));

  await mkdir(join(folder, "handlers/deep"), { recursive: true });
  await writeFile(join(folder, "handlers/deep/a.ts"), "1");
  await until(() => changes.includes("handlers/deep/a.ts"));
  await writeFile(join(folder, "handlers/deep/b.mts"), "1");

  expect(await until(() => changes.includes("handlers/deep/b.mts"))).toBe(true);
});
