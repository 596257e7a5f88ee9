import { expect, test } from "vitest";
import { readReadyHint, wakeTag } from "./ready-hint.ts";

test("a wake without names is for every worker", () => {
  expect(readReadyHint("ready:mail", "00000a")).toEqual({ queue: "mail", inMs: 0, passesOn: false });
  expect(readReadyHint("due", "00000a")).toBeUndefined();
});

test("a wake with names is for those workers, and for three more after a while", () => {
  const of = (tag: string) => readReadyHint("ready/00000a,00000b|00000c,00000d,00000f:mail", tag);
  expect(of("00000a")).toEqual({ queue: "mail", inMs: 0, passesOn: true });
  expect(of("00000b")).toEqual({ queue: "mail", inMs: 0, passesOn: false });
  expect(of("00000c")).toEqual({ queue: "mail", inMs: 250, passesOn: false });
  expect(of("00000d")).toEqual({ queue: "mail", inMs: 1_000, passesOn: false });
  expect(of("00000f")).toEqual({ queue: "mail", inMs: 2_000, passesOn: false });
  expect(of("00000e")).toEqual({ queue: "mail", inMs: null, passesOn: false });
});

test("the tag of a worker is the random end of its id", () => {
  expect(wakeTag("web-1-4242-9f3c21")).toBe("9f3c21");
});
