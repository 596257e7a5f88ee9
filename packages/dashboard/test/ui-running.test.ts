import { expect, test } from "vitest";
import { running } from "../ui/running.ts";

test("prefetched jobs are shown beside the slots: never 14 of 10", () => {
  expect(running({ running: 14 }, { busy: 10, total: 10, ahead: 4 })).toEqual({
    now: 10,
    beside: "4 waiting for a slot",
  });
  expect(running({ running: 14 }, { busy: 10, total: 10, ahead: 0 })).toEqual({
    now: 10,
    beside: "4 on draining workers",
  });
  expect(running({ running: 3 }, { busy: 3, total: 10, ahead: 0 })).toEqual({ now: 3, beside: "" });
});

test("without a worker all leased jobs are shown unchanged", () => {
  expect(running({ running: 5 }, { busy: 5, total: 0, ahead: 0 })).toEqual({ now: 5, beside: "" });
});
