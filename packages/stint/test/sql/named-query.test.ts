import { expect, test, vi } from "vitest";
import { openClient, type ReadingClient } from "#stint/db/client.js";
import { runNamed } from "#stint/db/named-query.js";
import { freshSchema } from "../support/fresh.ts";

async function open(): Promise<ReadingClient> {
  const fresh = await freshSchema();
  return await openClient({ connectionString: fresh.url });
}

const statement = (name: string, text: string, ...values: unknown[]) => ({
  name,
  text,
  values,
  types: undefined,
});

type Wire = { connection: { describe(message: unknown): void } };

test("the result of a prepared statement is described once for a connection", async () => {
  const client = await open();
  const describe = vi.spyOn((client as unknown as Wire).connection, "describe");
  const two = statement("two", "select 1 as a, 'x'::text as b, null::integer as c");

  for (let n = 0; n < 5; n++) expect(await runNamed(client, two)).toEqual([{ a: 1, b: "x", c: null }]);
  expect(describe).toHaveBeenCalledTimes(1);
  await client.end();
});

test.each([
  ["text", "text", `quotes " ' and \\ backslash, {braces}`],
  ["a list", "text[]", ["a", `"`, `\\`, "{}", ",", "", "NULL", "é\u{1F600}", null]],
  ["numbers", "integer[]", [1, -2, null]],
  ["nothing", "text[]", []],
  [
    "a list of lists",
    "integer[]",
    [
      [1, 2],
      [3, 4],
    ],
  ],
  ["a flag", "boolean", true],
  ["an object", "jsonb", { a: [1, null, "x"] }],
  ["null", "text", null],
])("%s comes back as it was sent", async (_, type, value) => {
  const client = await open();
  const echo = statement("echo", `select $1::${type} as value`, value);
  expect(await runNamed(client, echo)).toEqual([{ value }]);
  // Sent in another way, because the result is known.
  expect(await runNamed(client, echo)).toEqual([{ value }]);
  await client.end();
});

test("after an error the statement and the connection still work", async () => {
  const client = await open();
  const divide = (by: number) => statement("divide", "select 6 / $1::integer as value", by);
  await expect(runNamed(client, divide(0))).rejects.toThrow("division by zero");
  expect(await runNamed(client, divide(2))).toEqual([{ value: 3 }]);

  await expect(runNamed(client, statement("wrong", "selekt"))).rejects.toThrow("syntax error");
  expect(await runNamed(client, statement("wrong", "select 1 as value"))).toEqual([{ value: 1 }]);
  await client.end();
});

test("a value that cannot be read fails its statement, and no other", async () => {
  const client = await open();
  const types = {
    getTypeParser: () => () => {
      throw new Error("unreadable");
    },
  };
  const three = statement("three", "select n from generate_series(1, 3) n");
  await expect(runNamed(client, { ...three, types })).rejects.toThrow("unreadable");
  expect(await runNamed(client, statement("one", "select 1 as n"))).toEqual([{ n: 1 }]);
  await client.end();
});

test("a connection that ends fails what is under way", async () => {
  const client = await open();
  client.on("error", () => undefined);
  const other = await open();
  await other.query("select pg_advisory_lock(20261116)");
  const waiting = runNamed(client, statement("wait", "select pg_advisory_lock(20261116)"));
  const ended = waiting.catch((error: unknown) => error);
  await other.query("select pg_terminate_backend($1)", [client.backend]);
  expect(String(await ended)).toMatch(/terminat/i);
  await other.end();
});
