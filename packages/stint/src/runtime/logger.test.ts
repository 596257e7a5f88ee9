import { expect, test, vi } from "vitest";
import { jsonLogger, silentLogger } from "./logger.ts";

function collecting(level: "debug" | "info" | "warn" | "error" = "debug") {
  const lines: string[] = [];
  const logger = jsonLogger({ level, write: (line) => lines.push(line) });
  const last = () => JSON.parse(lines.at(-1) ?? "null") as Record<string, unknown>;
  return { logger, lines, last };
}

test("a line is one JSON object with time, level, message and fields", () => {
  const { logger, lines, last } = collecting();
  logger.info({ queue: "mail", jobs: 3 }, "claimed");

  expect(lines[0]).toMatch(
    /^\{"time":"[^"]+Z","level":"info","message":"claimed","queue":"mail","jobs":3\}\n$/,
  );
  expect(last()).toMatchObject({ level: "info", message: "claimed", queue: "mail", jobs: 3 });
});

test("lines below the level are dropped", () => {
  const { logger, lines } = collecting("warn");
  logger.debug({}, "a");
  logger.info({}, "b");
  logger.warn({}, "c");
  logger.error({}, "d");

  expect(lines.map((line) => (JSON.parse(line) as { message: string }).message)).toEqual(["c", "d"]);
});

test("a child adds its fields to every line", () => {
  const { logger, last } = collecting();
  logger.child({ worker: "w1" }).child({ queue: "mail" }).error({ queue: "sms" }, "no");

  expect(last()).toMatchObject({ worker: "w1", queue: "sms", message: "no" });
});

test("no text can start a new line or reach the terminal as a control character", () => {
  const { logger, lines, last } = collecting();
  logger.info({ key: "a\nb\u009b31m\u007f\u2028" }, "first\r\nsecond \u001b[2J");

  expect(lines[0]).toMatch(/^[^\p{Cc}\u2028\u2029]*\n$/u);
  expect(last()).toMatchObject({
    key: "a\nb\u009b31m\u007f\u2028",
    message: "first\r\nsecond \u001b[2J",
  });
});

test("a field cannot replace the level or the message", () => {
  const { logger, last } = collecting();
  logger.info({ level: "error", message: "forged" }, "real");
  expect(last()).toMatchObject({ level: "info", message: "real" });
});

test("an error is written with class, code, message, stack and causes", () => {
  const { logger, last } = collecting();
  const cause = new TypeError("inner");
  logger.error({ error: Object.assign(new Error("outer", { cause }), { code: "E1" }) }, "failed");

  expect(last()["error"]).toMatchObject({
    class: "Error",
    code: "E1",
    message: "outer",
    stack: expect.stringContaining("logger.test.ts"),
    cause: { class: "TypeError", message: "inner" },
  });
});

test("an error that causes itself is written", () => {
  const { logger, last } = collecting();
  const error = new Error("self");
  error.cause = error;
  logger.error({ error }, "failed");
  expect(last()).toMatchObject({ message: "failed", error: { message: "self" } });
});

test("fields that cannot be written are dropped, and the line is kept", () => {
  const { logger, last } = collecting();
  const cycle: Record<string, unknown> = {};
  cycle["self"] = cycle;
  logger.info(cycle, "cycle");
  expect(last()).toMatchObject({ message: "cycle", fieldsLost: true });

  const hostile = {
    get field(): never {
      throw new Error("no");
    },
  };
  logger.child(hostile).info({}, "getter");
  expect(last()).toMatchObject({ message: "getter", fieldsLost: true });
});

test("bigints are written and huge texts are cut", () => {
  const { logger, last, lines } = collecting();
  logger.info({ count: 5n, text: "x".repeat(1_000_000) }, "big");
  expect(last()).toMatchObject({ count: "5" });
  expect(lines.join("").length).toBeLessThan(20_000);
});

test("a writer that throws does not reach the caller", () => {
  const write = vi.fn(() => {
    throw new Error("disk full");
  });
  expect(() => jsonLogger({ write }).error({}, "no")).not.toThrow();
  expect(write).toHaveBeenCalledOnce();
});

test("the silent logger writes nothing, and neither do its children", () => {
  const write = vi.spyOn(process.stderr, "write");
  for (const logger of [silentLogger, silentLogger.child({ a: 1 })]) {
    logger.debug({}, "a");
    logger.info({}, "a");
    logger.warn({}, "a");
    logger.error({}, "a");
  }
  expect(write).not.toHaveBeenCalled();
  write.mockRestore();
});

test("without a writer, lines go to standard error", () => {
  const write = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  jsonLogger().info({}, "hello");
  expect(write).toHaveBeenCalledExactlyOnceWith(expect.stringContaining('"message":"hello"'));
  write.mockRestore();
});
