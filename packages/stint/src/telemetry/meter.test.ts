import { expect, test } from "vitest";
import { Meter } from "./meter.ts";

test("beyond 10,000 pairs of queue and kind, further queues are counted together", () => {
  const meter = new Meter();
  for (let n = 0; n < 30_000; n++) meter.of(`tenant-${n}`, "work").claimed += 1;
  meter.of("tenant-7", "work").claimed += 1;
  meter.of("tenant-29999", "mail").claimed += 1;

  expect(meter.kinds()).toHaveLength(10_002);
  expect(meter.of("tenant-7", "work")).toMatchObject({ queue: "tenant-7", claimed: 2 });
  expect(meter.of("tenant-29999", "work")).toMatchObject({ queue: "*", claimed: 20_000 });
  expect(meter.of("*", "mail")).toMatchObject({ claimed: 1 });
});
