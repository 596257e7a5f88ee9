import { expect, test } from "vitest";
import { claimedJob } from "../../test/support/claimed-job.ts";
import { StallWatch, type StalledAttempt } from "./stall-watch.ts";

test("a stall is reported once, and again only after the handler has reported", () => {
  const stalls: number[] = [];
  const attempt = {
    job: claimedJob("a"),
    startedAt: 0,
    activeAt: undefined as number | undefined,
    over: false,
  };
  const watch = new StallWatch({
    attempts: () => [attempt],
    stallAfterMs: () => 100,
    onStalled: ({ quietMs }: StalledAttempt) => stalls.push(quietMs),
  });
  for (const at of [100, 101, 500]) watch.look(at);
  attempt.activeAt = 600;
  for (const at of [650, 800, 900]) watch.look(at);
  attempt.over = true;
  watch.look(5_000);

  expect(stalls).toEqual([101, 200]);
});

test("a kind without stallAfter is never stalled", () => {
  const stalls: unknown[] = [];
  const watch = new StallWatch({
    attempts: () => [{ job: claimedJob("a"), startedAt: 0, activeAt: undefined, over: false }],
    stallAfterMs: () => undefined,
    onStalled: (stalled) => stalls.push(stalled),
  });
  watch.look(1e9);

  expect(stalls).toEqual([]);
});
