import { expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import { InvalidPayloadError } from "../errors.ts";
import {
  validate,
  type InferIn,
  type InferOut,
  type SchemaResult,
  type StandardSchema,
} from "./standard-schema.ts";

const subject = { kind: "send-receipt", root: "payload" } as const;
const receipt = z.object({
  items: z.array(z.object({ price: z.number() })),
  at: z.string().transform(Number),
});

/** A schema that returns the given result. */
function returning<Out>(respond: () => SchemaResult<Out> | Promise<SchemaResult<Out>>): StandardSchema<Out> {
  return { "~standard": { version: 1, vendor: "test", validate: respond } };
}

test("a schema's types are those the schema library infers", () => {
  expectTypeOf<InferIn<typeof receipt>>().toEqualTypeOf<z.input<typeof receipt>>();
  expectTypeOf<InferOut<typeof receipt>>().toEqualTypeOf<z.output<typeof receipt>>();
  expect(receipt["~standard"].version).toBe(1);
});

test("a valid value is returned as the schema's output, synchronously", () => {
  expect(validate(receipt, { items: [], at: "5" }, subject)).toEqual({ items: [], at: 5 });
});

test("an asynchronous schema is awaited", async () => {
  const schema = z.string().refine(async (text) => text !== "taken", "is taken");

  await expect(validate(schema, "free", subject)).resolves.toBe("free");
  await expect(validate(schema, "taken", subject)).rejects.toThrow(
    "send-receipt: payload does not fit its schema: is taken",
  );
});

test("the first issue gives the path", () => {
  let error: unknown;
  try {
    void validate(receipt, { items: [{ price: "5" }], at: "1" }, subject);
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toBeInstanceOf(InvalidPayloadError);
  expect(error).toMatchObject({ path: "payload.items[0].price", kind: "send-receipt" });
});

test("further issues are listed up to a limit", () => {
  const issues = Array.from({ length: 10 }, (_, index) => ({
    message: `bad ${index}`,
    path: [{ key: "list" }, index],
  }));

  expect(() =>
    validate(
      returning(() => ({ issues })),
      1,
      subject,
    ),
  ).toThrow(
    "send-receipt: payload.list[0] does not fit its schema: bad 0; payload.list[1]: bad 1; payload.list[2]: bad 2; and 7 more",
  );
});

test("a message of a megabyte is cut", () => {
  const schema = returning(() => ({
    issues: [{ message: "x".repeat(1_000_000), path: ["k".repeat(1_000_000)] }],
  }));
  let message = "";
  try {
    void validate(schema, 1, subject);
  } catch (error) {
    message = (error as Error).message;
  }
  expect(message).toMatch(/^send-receipt: payload\["k+…"\] does not fit its schema: x+$/);
  expect(message.length).toBeLessThan(2_000);
});

test("a schema that throws or rejects is reported with its error", async () => {
  const cause = new Error("schema is broken");
  const thrower = returning(() => {
    throw cause;
  });
  const rejecter = returning(() => Promise.reject(cause));

  expect(() => validate(thrower, 1, subject)).toThrow(
    expect.objectContaining({
      code: "INVALID_PAYLOAD",
      cause,
      rule: expect.stringContaining("schema is broken"),
    }),
  );
  await expect(validate(rejecter, 1, subject)).rejects.toMatchObject({ code: "INVALID_PAYLOAD", cause });
});

test("a schema that returns no result is reported", () => {
  expect(() =>
    validate(
      returning(() => null as never),
      1,
      subject,
    ),
  ).toThrow("its schema returned null");
});

test("an issue without path or message still refuses the value", () => {
  expect(() =>
    validate(
      returning(() => ({ issues: [] })),
      1,
      subject,
    ),
  ).toThrow(InvalidPayloadError);
});
