import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { freshSchema } from "../support/fresh.ts";

const folder = fileURLToPath(new URL("../../", import.meta.url));

/** Run a script that imports "stint" in a separate process. Returns its output. */
async function run(script: string, env: Record<string, string> = {}): Promise<string> {
  const options = { cwd: folder, env: { PATH: process.env["PATH"], ...env } };
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["--input-type=module", "--eval", script],
    options,
  );
  return stdout;
}

const refuseApi = `
  import { register } from "node:module";
  register("data:text/javascript," + encodeURIComponent(\`export async function resolve(name, context, next) {
    if (name.startsWith("@opentelemetry/")) throw new Error("it loads " + name);
    return await next(name, context);
  }\`));`;

test("without telemetry, the API package is not loaded and meta is unchanged", async () => {
  const fresh = await freshSchema();
  const output = await run(
    `${refuseApi}
    const { createStint, defineJob, handle, silentLogger, typed } = await import("stint");
    const stint = createStint({ database: process.env.DATABASE_URL, schema: process.env.SCHEMA, logger: silentLogger });
    const note = defineJob("note", { payload: typed() });
    let meta;
    const worker = stint.worker({ pools: { default: 1 }, handlers: [handle(note, (job) => void (meta = job.meta))] });
    await worker.start();
    await stint.waitFor(await stint.enqueue(note, {}, { meta: { user: "u1" } }), { timeout: "60s" });
    const { id } = await stint.enqueue(note, {}, { delay: "1h" });
    console.log(JSON.stringify([meta, (await stint.get(id)).meta]));
    await stint.close();`,
    { DATABASE_URL: fresh.url, SCHEMA: fresh.schema },
  );

  expect(JSON.parse(output)).toEqual([{ user: "u1" }, {}]);
});

test("only stint/opentelemetry loads the API package", async () => {
  await expect(run(`${refuseApi} await import("stint/opentelemetry");`)).rejects.toThrow(
    "it loads @opentelemetry/api",
  );
});
