import { join } from "node:path";
import esbuild from "esbuild";
import { expect, test } from "vitest";
import { unusedSchema } from "../support/fresh.ts";
import { testFolder } from "../support/folder.ts";
import { startWorkerProcess } from "../support/worker-process.ts";
import { defineJob, typed } from "#stint/index.js";
import { fileURLToPath } from "node:url";

const file = (name: string): string =>
  fileURLToPath(new URL(`../fixtures/isolated/${name}`, import.meta.url));

test("a bundled worker runs a bundled handler that has its own copy of the library", async () => {
  const outdir = await testFolder();
  await esbuild.build({
    entryPoints: [file("bundled-worker.mjs"), file("in-process.mjs")],
    outdir,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    external: ["pg-native"],
    logLevel: "error",
    banner: {
      js: `import { createRequire } from "node:module"; const require = createRequire(import.meta.url);`,
    },
  });
  const fresh = await unusedSchema();
  const stint = fresh.client();
  const worker = await startWorkerProcess(fresh, { program: join(outdir, "bundled-worker.mjs") });
  const inProcess = defineJob("in-process", {
    payload: typed<{ do: string }>(),
    result: typed<{ pid: number }>(),
  });

  const { pid } = await stint.waitFor(await stint.enqueue(inProcess, { do: "where" }), { timeout: "60s" });
  expect(pid).not.toBe(worker.pid);
  const { id } = await stint.enqueue(inProcess, { do: "permanent" });
  await stint.waitFor(id, { timeout: "60s" }).catch(() => undefined);
  expect(await stint.get(id)).toMatchObject({ state: "dead", attempts: 1 });
  worker.kill("SIGTERM");
  expect(await worker.ended).toEqual({ code: 0, signal: null });
});
