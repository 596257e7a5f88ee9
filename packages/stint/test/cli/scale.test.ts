import { expect, test } from "vitest";
import type { Capacity } from "#stint/inspect.js";
import { freshSchema } from "../support/fresh.ts";
import { stintOn } from "./support.ts";

test("scale recommend prints the workers of each pool and the limiting factor", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  const none = await run("scale", "recommend");
  expect(none).toMatchObject({ code: 0, stdout: "Recommended: 1 worker. Live: 0.\n" });

  await fresh.sql(`select stint.enqueue('note', '{}', '{"queue": "notes"}') from generate_series(1, 600)`);
  await fresh.sql(
    `insert into stint.worker (id, host, pid, version, pools, kinds) values ('w', 'h', 1, '1', '{"notes": 1}', '{note}')`,
  );
  const seen = await run("scale", "recommend", "--target", "100s");
  expect(seen.stdout).toMatch(/notes .* 600 .* 1 +6 +1 of 6 needed workers run/);
  expect(seen.stdout).toContain("Recommended: 6 workers. Live: 1.\n");

  const bounded = await run("scale", "recommend", "--target", "100s", "--most", "4", "--json");
  expect(JSON.parse(bounded.stdout)).toMatchObject({
    recommended: 4,
    pools: [{ pool: "notes", needed: 6, recommended: 6, limitedBy: { factor: "workers" } }],
  });
  const rule = await run("scale", "recommend", "--target", "1h", "--rule", "depth>500:+2,depth<50", "--json");
  expect((JSON.parse(rule.stdout) as Capacity).recommended).toBe(3);

  await fresh.client().pauses.pause({ queue: "notes" }, { reason: "maintenance" });
  expect((await run("scale", "recommend")).stdout).toMatch(
    /0 +Queue notes is paused: more workers will not help/,
  );
});

test.each([
  [["--rule", "depth>5"], /--rule must be such as/],
  [["--rule", "depth > 5: +1, depth < 9"], /--rule depth > 5: \+1, depth < 9\.depthBelow/],
  [["--most", "0"], /max/],
  [["--target", "soon"], /target/],
  [["--pool", "notes"], /--pool needs a config/],
])("scale recommend refuses %j", async (flags, message) => {
  const fresh = await freshSchema();
  const refused = await stintOn(fresh)("scale", "recommend", ...flags);
  expect(refused).toMatchObject({ code: 2, stderr: expect.stringMatching(message) as string });
});
