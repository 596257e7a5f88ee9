import { describe, expect, test } from "vitest";
import { untilRenewed } from "../support/database-time.ts";
import { unusedSchema } from "../support/fresh.ts";
import { slice } from "../support/lab.ts";
import { scripted, entered, startWorkerProcess, workerProgram } from "../support/worker-process.ts";
import { bundle, bundlers } from "./bundlers.ts";

const names = Object.keys(bundlers) as (keyof typeof bundlers)[];
const cases = names.flatMap((name) =>
  (["esm", "cjs"] as const).flatMap((format) =>
    (["external", "bundled"] as const).map((pg) => ({ name, format, pg })),
  ),
);
// Rollup and webpack take seconds of a core for each bundle.
const kept = slice(cases, ({ name, pg }) => name === "esbuild" && pg === "external");

describe("a worker bundled by", () => {
  test.each(kept)(
    "$name as $format with pg $pg runs a job once and renews its lease",
    async ({ name, format, pg }) => {
      const program = await bundle(name, { entry: workerProgram, format, pg });
      const fresh = await unusedSchema();
      const stint = fresh.client();
      const worker = await startWorkerProcess(fresh, { program });
      const { id } = await stint.enqueue(scripted, { do: "ignore" });
      await worker.reported("entered", id);

      await untilRenewed(fresh, id, 1);
      worker.go(id);
      await worker.reported("settled", id);

      expect(entered(worker)).toEqual([`${id}/1`]);
      expect(await stint.get(id)).toMatchObject({ state: "succeeded", attempts: 1, crashes: 0 });
      worker.kill("SIGTERM");
      expect(await worker.ended).toEqual({ code: 0, signal: null });
      expect(worker.errors()).not.toMatch(/"level":"(?:error|warn)"/);
    },
  );
});
