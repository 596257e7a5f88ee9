/** The dashboard options of the config also apply to `stint dev`. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { defineConfig, defineJob, typed } from "stint";
import { expect, test } from "vitest";
import { project, start } from "../../stint/test/cli/support.ts";
import { freshSchema } from "../../stint/test/support/fresh.ts";
import { until } from "../../stint/test/support/until.ts";

const configOf = (schema: string, dashboard: string): string => `
  import { defineJob, handle, typed } from "stint";
  const work = defineJob("work", { payload: typed() });
  export default {
    schema: ${JSON.stringify(schema)},
    worker: { pools: { default: 1 }, handlers: [handle(work, () => undefined)] },
    dashboard: ${dashboard},
  };`;

test("dev applies the config's redaction, and follows its edits", async () => {
  const fresh = await freshSchema();
  const work = defineJob("work", { payload: typed<object>() });
  const { id } = await fresh.client().enqueue(work, { card: "4111111111111111" }, { delay: "1h" });
  const edited = (name: string): string =>
    configOf(
      fresh.schema,
      `{
        redact: ["payload.card"],
        environment: { name: ${JSON.stringify(name)} },
        hosts: ["jobs.example.com"],
        addressOf: () => null,
        onAudit: () => undefined,
      }`,
    );
  const folder = await project({ "stint.config.ts": edited("one") });
  const dev = start(["dev"], { cwd: folder, env: { DATABASE_URL: fresh.url } });
  const addresses = () => [...dev.text().matchAll(/The dashboard is at (\S+)/g)].map(([, url]) => url!);

  await dev.wrote("The dashboard is at http://");
  const [url] = addresses();
  expect(await (await fetch(`${url}api/me`)).json()).toMatchObject({ environment: { name: "one" } });
  const shown = await (await fetch(`${url}api/jobs/${id}`)).text();
  expect(shown).toContain("[redacted]");
  expect(shown).not.toContain("41111111");

  await writeFile(join(folder, "stint.config.ts"), edited("two"));
  const next = await until(() => addresses()[1], { message: "the dashboard is served anew" });
  expect(await (await fetch(`${next}api/me`)).json()).toMatchObject({ environment: { name: "two" } });
  dev.process.kill("SIGINT");
  expect((await dev.ended).code).toBe(0);
});

test("the config takes every dashboard option that has no other source", () => {
  const dashboard = { addressOf: (request: Request) => request.headers.get("x-real-ip") };
  expect(defineConfig({ dashboard }).dashboard).toBe(dashboard);
});
