import { expect, test } from "vitest";
import { defineConfig, resolveConfig } from "./config.ts";
import { defineJob, typed } from "./define.ts";
import { handle } from "./worker/handle.ts";

const add = defineJob("add", { payload: typed<{ a: number }>() });
const mail = defineJob("mail", { payload: typed<{ to: string }>() });

test("kinds of handlers may be enqueued without being listed, or be listed as well", () => {
  const config = defineConfig({
    schema: "jobs",
    jobs: [mail],
    worker: {
      pools: { default: 1 },
      handlers: [handle(add, () => undefined), handle(mail, () => undefined)],
    },
  });

  const { options, worker } = resolveConfig(config);

  expect(options.jobs?.map((job) => job.kind)).toEqual(["mail", "add"]);
  expect(options).not.toHaveProperty("worker");
  expect(options.schema).toBe("jobs");
  expect(worker?.pools).toEqual({ default: 1 });
});

test("an unknown key is refused with a suggestion", () => {
  const misspelt = { databse: "postgres://localhost/app" } as object;

  expect(() => defineConfig(misspelt)).toThrow(
    'defineConfig.databse: is not an option; did you mean "database"?',
  );
  expect(() => resolveConfig(misspelt, "stint.config.ts")).toThrow("stint.config.ts.databse");
});

test("a config other than an object is refused", () => {
  expect(() => resolveConfig(null as never, "stint.config.ts")).toThrow("stint.config.ts: must be an object");
});

test("the dashboard's options are passed on, and an unknown one is refused", () => {
  const dashboard = { redact: ["payload.card"], traceUrl: "https://traces.example.com/{traceId}" };

  expect(resolveConfig(defineConfig({ dashboard })).dashboard).toEqual(dashboard);
  expect(resolveConfig({}).dashboard).toEqual({});
  expect(resolveConfig({ dashboard }).options).not.toHaveProperty("dashboard");
  const misspelt = { dashboard: { redacted: ["payload.card"] } } as object;
  expect(() => resolveConfig(misspelt, "stint.config.ts")).toThrow(
    'stint.config.ts.dashboard.redacted: is not an option; did you mean "redact"?',
  );
});
