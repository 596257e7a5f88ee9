import { expect, test } from "vitest";
import { command } from "./command.ts";

test("a command names its schema if it is not the default", () => {
  expect(command("stint", "jobs", "run-now", "7")).toBe("npx stint jobs run-now 7");
  expect(command("billing", "migrate")).toBe("npx stint migrate --schema billing");
});

test("names chosen by users stay one shell word", () => {
  expect(command("stint", "jobs", "list", "--kind", "a; rm -rf ~")).toBe(
    "npx stint jobs list --kind 'a; rm -rf ~'",
  );
  expect(command("stint", "--kind", "it's $HOME")).toBe(`npx stint --kind 'it'\\''s $HOME'`);
  expect(command("stint", "--kind", "")).toBe("npx stint --kind ''");
});
