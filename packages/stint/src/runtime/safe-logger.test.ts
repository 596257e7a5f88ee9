import { expect, test } from "vitest";
import { silentLogger, type Logger } from "./logger.ts";
import { safeLogger } from "./safe-logger.ts";

const refuse = (): never => {
  throw new Error("no");
};

test("a line whose fields cannot be read is logged without them", () => {
  const lines: [object, string][] = [];
  const logger = safeLogger({
    ...silentLogger,
    warn: (fields, message) => {
      if (!("fieldsLost" in fields)) refuse();
      lines.push([fields, message]);
    },
  });
  logger.warn({ err: "hostile" }, "it failed");
  expect(lines).toEqual([[{ fieldsLost: true }, "it failed"]]);
});

test("nothing a logger throws or rejects with comes out", async () => {
  const broken: Logger = {
    debug: refuse,
    info: refuse,
    warn: refuse,
    // oxlint-disable-next-line typescript/no-misused-promises
    error: async () => await Promise.reject(new Error("later")),
    child: refuse,
    isLevelEnabled: refuse,
  };
  const logger = safeLogger(broken);
  logger.debug({}, "a line");
  logger.error({}, "a line");
  expect(logger.isLevelEnabled?.("debug")).toBe(true);
  logger.child({}).info({}, "a line");
  // An unhandled rejection would fail this file.
  await new Promise((resolve) => setImmediate(resolve));
});

test("fields, messages and this reach the logger unchanged", () => {
  class Own implements Logger {
    #lines: unknown[] = [];
    debug = () => undefined;
    info(fields: object, message: string): void {
      this.#lines.push([fields, message]);
    }
    warn = () => undefined;
    error = () => undefined;
    child(): Logger {
      return this;
    }
    get lines(): unknown[] {
      return this.#lines;
    }
  }
  const own = new Own();
  safeLogger(own).child({}).info({ a: 1 }, "hello");
  expect(own.lines).toEqual([[{ a: 1 }, "hello"]]);
});
