import { expect, test } from "vitest";
import { deploysOf } from "../ui/screens/health/deploys.ts";

test("a version is marked where its first worker started, if that is on the chart", () => {
  const at = (second: number) => new Date(second * 1_000).toISOString();
  const workers = [
    { version: "1.3", startedAt: at(500) },
    { version: "1.3", startedAt: at(450) },
    { version: "1.2", startedAt: at(10) },
    { version: "1.4", startedAt: at(420) },
    { version: "1.5", startedAt: "never" },
  ];
  expect(deploysOf(workers, 100)).toEqual([
    { at: 420, title: "1.4" },
    { at: 450, title: "1.3" },
  ]);
});
