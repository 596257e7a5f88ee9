import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { defineJob, handle, InvalidOptionError, typed, type Isolate } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { testFolder } from "../support/folder.ts";

const inThread = defineJob("in-thread", { payload: typed<{ do: string }>() });
const file = new URL("../fixtures/isolated/in-thread.mjs", import.meta.url);

test("wrong options of an isolated handler are refused with what to do", () => {
  const refusal = (isolate: unknown, at: unknown = file, more = {}): string => {
    try {
      handle(inThread, at as URL, { isolate: isolate as Isolate, ...more });
    } catch (error) {
      if (error instanceof InvalidOptionError) return error.message;
      throw error;
    }
    return "accepted";
  };
  expect(refusal("process")).toBe("accepted");
  expect(refusal({ in: "thread", memory: 64 * 1024 * 1024 })).toBe("accepted");
  expect(refusal(undefined)).toContain('isolate: is needed with the file of a handler: "thread", "process"');
  expect(refusal("proces")).toContain('did you mean "process"?');
  expect(refusal(7)).toContain('must be "thread", "process"');
  expect(refusal({ in: "process", memroy: "1gb" })).toContain('did you mean "memory"?');
  expect(refusal({ in: "process", memory: "512" })).toContain('must be a size such as "512mb"');
  expect(refusal({ in: "process", memory: NaN })).toContain('must be a size such as "512mb"');
  expect(refusal({ in: "process", memory: "1mb" })).toContain("must be at least 32 MB");
  expect(refusal({ in: "process", memory: "999999999gb" })).toContain("must be at most");
  expect(refusal("process", "./render.js")).toContain('new URL("./render.js", import.meta.url)');
  expect(refusal("process", new URL("https://example.com/x.js"))).toContain(
    "must be the file of the handler",
  );
  expect(refusal("process", new URL("./nowhere.js", import.meta.url))).toContain(
    "build the handler as an entry point",
  );
  expect(refusal("process", file, { batch: { size: 2 } })).toContain("cannot be given together with batch");
  expect(refusal("process", file, { isolated: true })).toContain('did you mean "isolate"?');
  const atomic = defineJob("atomic", { payload: typed<object>(), atomic: true });
  expect(() => handle(atomic, file, { isolate: "thread" })).toThrow("cannot be given to an atomic kind");
  expect(() => handle(inThread, { isolate: "thread" } as never, () => 1)).toThrow(
    "needs the file of the handler",
  );
});

test("a worker refuses to start with a file that has no handler of its kind", async () => {
  const fresh = await freshSchema();
  const folder = await testFolder();
  const stintUrl = pathToFileURL(join(import.meta.dirname, "../../dist/index.js")).href;
  const defined = `import { defineJob, handle, typed } from ${JSON.stringify(stintUrl)};
    const inThread = defineJob("in-thread", { payload: typed() });
    const other = defineJob("other", { payload: typed() });`;
  const files = {
    "empty.mjs": "export const x = 1;",
    "function.mjs": "export default () => 1;",
    "other.mjs": `${defined} export default handle(other, () => 1);`,
    "options.mjs": `${defined} export default handle(inThread, () => 1, { attempts: 9 });`,
    "throws.mjs": `throw new TypeError("cannot load");`,
    "exits.mjs": "process.exit(7);",
  };
  const refusals: Record<string, string> = {};
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, name);
    await writeFile(path, text);
    const stint = fresh.client();
    const worker = stint.worker({
      pools: { default: 1 },
      signals: false,
      handlers: [handle(inThread, path, { isolate: "thread" })],
    });
    await worker.start().then(
      () => (refusals[name] = "started"),
      (error: Error) => (refusals[name] = error.message),
    );
    await worker.stop();
  }
  expect(refusals).toEqual({
    "empty.mjs": expect.stringContaining("must have a default export made by handle(in-thread, fn)"),
    "function.mjs": expect.stringContaining("must have a default export made by handle(in-thread, fn)"),
    "other.mjs": expect.stringContaining('has the handler of kind "other", not of "in-thread"'),
    "options.mjs": expect.stringContaining("Give them where the worker calls handle(…)"),
    "throws.mjs": expect.stringContaining("could not be loaded (TypeError: cannot load)"),
    "exits.mjs": expect.stringContaining("ended with exit code 7"),
  });
  expect(await fresh.sql("select id from stint.worker")).toEqual([]);
});
