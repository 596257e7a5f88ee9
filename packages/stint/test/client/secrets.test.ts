import { inspect } from "node:util";
import { expect, test } from "vitest";
import { createStint, silentLogger } from "#stint/index.js";
import { shownConnection } from "#stint/db/connection.js";
import { migrate } from "#stint/db/migrate.js";
import { stint } from "../cli/support.ts";

/** Connection strings as people mistype them. The host is one that refuses at once. */
const odd = [
  "postgres//u:S3CRET@127.0.0.1:1/d",
  "postgres:/u:S3CRET@127.0.0.1:1/d",
  "postgres:u:S3CRET@127.0.0.1:1/d",
  "postgres;//u:S3CRET@127.0.0.1:1/d",
  "postgres ://u:S3CRET@127.0.0.1:1/d",
  "postgres:://u:S3CRET@127.0.0.1:1/d",
  "://u:S3CRET@127.0.0.1:1/d",
  "//u:S3CRET@127.0.0.1:1/d",
  "u:S3CRET@127.0.0.1:1/d",
  " postgres://u:S3CRET@127.0.0.1:1/d",
  '"postgres://u:S3CRET@127.0.0.1:1/d"',
  "'postgres://u:S3CRET@127.0.0.1:1/d'",
  "DATABASE_URL=postgres://u:S3CRET@127.0.0.1:1/d",
  "psql postgres://u:S3CRET@127.0.0.1:1/d",
  "postgres://u:S3CRET",
  "postgres://u:S3CRET@",
  "postgres://u:S3CRET:S3CRET@127.0.0.1:1/d",
  "postgres://u:S3CRET/S3CRET@127.0.0.1:1/d",
  "postgres://u:12/S3CRET@127.0.0.1:1/d",
  "postgres://u:#S3CRET@127.0.0.1:1/d",
  "postgres://u:?S3CRET@127.0.0.1:1/d",
  "postgres://u:12?S3CRET@127.0.0.1:1/d",
  "postgres://u:%S3CRET@127.0.0.1:1/d",
  "postgres://u:[S3CRET]@127.0.0.1:1/d",
  "postgres://u:S3 CRET@127.0.0.1:1/d",
  "postgres://u:S3CRET@127.0.0.1:port/d",
  "postgres://u:S3CRET@127.0.0.1:1,127.0.0.1:2/d",
  "postgres://127.0.0.1:1/d?user=u&password=S3CRET",
  "mysql://u:S3CRET@127.0.0.1:1/d",
  "jdbc:postgresql://127.0.0.1:1/d?user=u&password=S3CRET",
  "host=127.0.0.1 port=1 user=u password=S3CRET",
  "Server=127.0.0.1;User Id=u;Password=S3CRET;",
  "S3CRET:S3CRET",
];
const isSecret = /S3|CRET/;

test.each(odd)("no error, cause or stack of %j shows its password", async (database) => {
  const errors: unknown[] = [];
  const failed = (error: unknown): void => void errors.push(error);
  try {
    const client = createStint({ database, logger: silentLogger });
    await client.queues().catch(failed);
    await client.close();
  } catch (error) {
    failed(error);
  }
  await migrate({ connection: database }).catch(failed);
  try {
    createStint(database as never);
  } catch (error) {
    failed(error);
  }

  expect(errors).toHaveLength(3);
  for (const error of errors) expect(inspect(error, { depth: 20 })).not.toMatch(isSecret);
  expect(shownConnection(database)).not.toMatch(isSecret);
});

test("no command prints the password of an invalid connection string", async () => {
  const some = odd.filter((_, index) => index % 4 === 0);
  for (const url of some) {
    const { code, stdout, stderr } = await stint(["migrate", "--verbose"], { env: { DATABASE_URL: url } });
    expect({ code, text: isSecret.test(stdout + stderr) ? stdout + stderr : "" }).toEqual({
      code: expect.any(Number) as number,
      text: "",
    });
    expect(code).not.toBe(0);
  }
}, 120_000);

test.each([
  [{ database: "postgres://u:p@a:5432,b:5432/d" }],
  [{ database: "postgres://a,b/d?target_session_attrs=read-write" }],
  [{ database: "postgres:///d?host=a,b" }],
  [{ database: { host: "a,b" } }],
  [{ database: { connectionString: "postgres://a,b/d" } }],
])("several hosts are refused with a clear message: %j", (options) => {
  expect(() => createStint(options)).toThrow("names several hosts, and Stint connects to one host");
});
