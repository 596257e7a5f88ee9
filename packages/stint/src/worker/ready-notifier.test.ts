import { expect, test } from "vitest";
import { readyNotifier } from "./ready-notifier.ts";

test("a wake for the jobs of a queue carries their number", () => {
  const sent: unknown[] = [];
  const { notifyEach, notifyReady } = readyNotifier({
    notify: (hints, jobs) => void sent.push([hints, jobs]),
  });
  notifyEach(["mail", "calls", "mail"]);
  notifyEach([]);
  notifyReady(["mail", "mail"]);
  expect(sent).toEqual([
    [["ready:mail"], 2],
    [["ready:calls"], 1],
    [["ready:mail"], undefined],
  ]);
});
