import { expect, test } from "vitest";
import { command } from "./command.ts";

test("a command names its schema where that is another one", () => {
  expect(command("stint", "jobs", "run-now", "7")).toBe("npx stint jobs run-now 7");
  expect(command("billing", "migrate")).toBe("npx stint migrate --schema billing");
});

test("what others named stays one word of the shell", () => {
  expect(command("stint", "jobs", "list", "--kind", "a; rm -rf ~")).toBe(
    "npx stint jobs list --kind 'a; rm -rf ~'",
  );
  expect(command("stint", "--kind", "it's $HOME")).toBe(`npx stint --kind 'it'\\''s $HOME'`);
  expect(command("stint", "--kind", "")).toBe("npx stint --kind ''");
});
