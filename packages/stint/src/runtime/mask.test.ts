import * as fc from "fast-check";
import { expect, test } from "vitest";
import { maskUrl, printable } from "./mask.ts";

test.each([
  ["postgres://app:s3cret@db:5432/main", "postgres://app:***@db:5432/main"],
  ["postgresql://:s3cret@db/main", "postgresql://:***@db/main"],
  ["cannot reach postgres://a:b@c/d now", "cannot reach postgres://a:***@c/d now"],
  ["postgres://app:p@ss:w/rd@db/main", "postgres://app:***@db/main"],
  ["postgres://db/main?user=a&password=s3cret&ssl=1", "postgres://db/main?user=a&password=***&ssl=1"],
  ["host=db password=s3cret user=a", "host=db password=*** user=a"],
  ["host=db password='s3 cr\\'et' user=a", "host=db password='***' user=a"],
  ["PGPASSWORD=s3cret psql", "PGPASSWORD=*** psql"],
  ['{"password":"s3 cret","a":1}', '{"password":"***","a":1}'],
  ["sslpassword = s3cret", "sslpassword = ***"],
  ["password: s3cret", "password: ***"],
  ["postgres://me@corp:s3cret@db/main", "postgres://me@corp:***@db/main"],
  ["app:s3cret@db/main", "app:***@db/main"],
  ['got "app:s3@cret@db/main"', 'got "app:***@db/main"'],
])("the password in %s is hidden", (text, masked) => {
  expect(maskUrl(text)).toBe(masked);
});

test.each([
  "postgres://db:5432/main",
  "me@db",
  "12:30",
  'password authentication failed for user "app"',
  "nothing here",
  "",
])("%j has no password and stays as it is", (text) => {
  expect(maskUrl(text)).toBe(text);
});

test("no password of a URL or a connection string shows", () => {
  const password = fc.stringMatching(/^[!-~]{6,40}$/).map((tail) => `S3CRET${tail}S3CRET`);
  fc.assert(
    fc.property(password, (secret) => {
      expect(maskUrl(`failed: postgres://app:${secret}@db/main`)).not.toContain("S3CRET");
      fc.pre(!secret.includes("&"));
      expect(maskUrl(`host=db password=${secret} user=a`)).not.toContain("S3CRET");
    }),
  );
});

test("masked text is unchanged by a second masking", () => {
  expect(maskUrl("password://&@")).toBe(maskUrl(maskUrl("password://&@")));
  const unit = fc.constantFrom(
    "password",
    "pwd",
    "=",
    ":",
    '"',
    "'",
    "\\",
    "@",
    "//",
    "a",
    " ",
    "&",
    "*",
    ",",
  );
  fc.assert(
    fc.property(fc.string({ unit, maxLength: 30 }), (text) => {
      const masked = maskUrl(text);
      expect(maskUrl(masked)).toBe(masked);
    }),
    { numRuns: 2_000 },
  );
});

test("a long hostile text is searched quickly", () => {
  const used = process.cpuUsage();
  maskUrl("a://b:".repeat(20_000));
  maskUrl("password='".repeat(10_000));
  maskUrl("x".repeat(200_000));
  maskUrl("a:".repeat(200_000));
  maskUrl("=a:@".repeat(100_000));
  expect(process.cpuUsage(used).user).toBeLessThan(5_000_000);
});

test.each([
  ["plain é 😀", "plain é 😀"],
  ["\u001b[31mred\u001b[0m", "red"],
  ["\u001b]0;title\u0007text", "text"],
  ["\u001b]8;;http://x\u001b\\link\u001b]8;;\u001b\\", "link"],
  ["\u009b2Jcleared", "cleared"],
  ["\u001bcreset", "reset"],
  ["bell\u0007 back\b del\u007f nul\0", "bell back del nul"],
  ["two\nlines\tand\r\nmore", "two lines and more"],
  ["abc\u202egpj.exe", "abcgpj.exe"],
])("%j prints as %j", (text, shown) => {
  expect(printable(text)).toBe(shown);
});

test("nothing printable contains a control character", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom("\u001b", "[", "]", "0", ";", "m", "\u0007", "\\", "\u009b", "\n") }),
      (text) => {
        expect(printable(text)).not.toMatch(/\p{Cc}/u);
      },
    ),
  );
});
