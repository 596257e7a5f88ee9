import { expect, test } from "vitest";
import type { Run } from "#stint/db/db.js";
import { health } from "#stint/inspect/health.js";
import { fillQueues } from "../support/fill-queues.ts";
import { freshSchema } from "../support/fresh.ts";

test("the health of 500 queues takes three statements and less than a megabyte", async () => {
  const fresh = await freshSchema();
  await fillQueues(fresh, 500);
  let statements = 0;
  let bytes = 0;
  const counting: Run = {
    run: async (...args: Parameters<Run["run"]>) => {
      const rows = await fresh.db.run(...args);
      statements += 1;
      bytes += JSON.stringify(rows).length;
      return rows;
    },
  };

  const { queues } = await health(counting);

  expect(queues).toHaveLength(500);
  expect(queues[0]).toMatchObject({
    depth: { ready: 1, dead: 1 },
    rates: { arrived: expect.toSatisfy((rate: number) => rate > 1) as number },
  });
  expect(queues[0]?.recent.filter(({ arrived }) => arrived >= 100).length).toBeGreaterThan(25);
  expect(statements).toBe(3);
  expect(bytes).toBeLessThan(1_000_000);
});
