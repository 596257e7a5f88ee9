import { expect, test } from "vitest";
import type { ClaimedJob } from "../model/job.ts";
import { SlowWatch, type SlowAttempt, type Watchable } from "./slow-watch.ts";

function watching(attempts: Watchable[]): { watch: SlowWatch<Watchable>; slow: SlowAttempt[] } {
  const slow: SlowAttempt[] = [];
  const watch = new SlowWatch({
    attempts: () => attempts,
    timeoutOf: () => 100_000,
    onSlow: (one) => slow.push(one),
  });
  return { watch, slow };
}

const attempt = (kind: string, startedAt: number, over = false): Watchable => ({
  job: { kind } as ClaimedJob,
  startedAt,
  over,
});

test("an attempt that runs longer than usual is reported once, others are not", () => {
  const { watch, slow } = watching([attempt("mail", 0), attempt("report", 0), attempt("mail", 9_000)]);
  watch.look(10_000);
  expect(slow).toEqual([]);
  watch.learn(new Map([["mail", 1_000]]));
  watch.look(10_000);
  watch.look(11_000);

  expect(slow).toMatchObject([{ job: { kind: "mail" }, ms: 10_000, p95Ms: 1_000, because: "beyond-normal" }]);
});

test("an attempt close to its timeout is reported, whatever is usual", () => {
  const { watch, slow } = watching([attempt("mail", 0), attempt("mail", 0, true)]);
  watch.look(69_000);
  expect(slow).toEqual([]);
  watch.look(70_000);
  expect(slow).toMatchObject([{ p95Ms: null, because: "near-timeout" }]);
});
