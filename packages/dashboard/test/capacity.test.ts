/** The recommendation of workers: shared by viewers, and without values of keys for roles that may not see them. */
import type { Capacity } from "stint/inspect";
import { expect, test } from "vitest";
import { recommendationText } from "../ui/screens/capacity/recommendation.ts";
import { capacity } from "./browser/support/busy-night-capacity.ts";
import { fakeStint } from "./support/fake.ts";
import { open, request } from "./support/request.ts";

const card = "4111111111111111";
const key = `key:account=${card}`;

function atFullKey(): Capacity {
  const [first, ...others] = capacity().pools;
  const limitedBy = { factor: "limit", name: key, text: `The limit ${key} is full` } as const;
  return { ...capacity(), pools: [{ ...first!, limitedBy }, ...others] };
}

test("the name of a full key does not show a redacted value", async () => {
  const stint = fakeStint({ capacity: atFullKey });
  const redact = ["payload.account"];
  for (const path of ["/api/capacity", "/api/capacity?queues=mail&slots=10"]) {
    const hidden = await request(open({ role: "operate" }, { stint, redact }), path);
    expect([hidden.status, hidden.text.includes(card)]).toEqual([200, false]);
    const { pools } = hidden.body as Capacity;
    expect(pools[0]?.limitedBy).toEqual({
      factor: "limit",
      name: "key:account",
      text: "The limit key:account is full",
    });
    expect(pools[1]?.limitedBy.name).toBe("dependency:openai");
    expect((await request(open({ role: "admin" }, { stint, redact }), path)).text).toContain(card);
    expect((await request(open({ role: "view" }, { stint }), path)).text).toContain(card);
  }
});

test("viewers of the whole recommendation share one read", async () => {
  const stint = fakeStint({ capacity });
  const dashboard = open({ role: "view" }, { stint });
  const all = await Promise.all(Array.from({ length: 5 }, () => request(dashboard, "/api/capacity")));
  expect(all.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
  expect(stint.calls.filter(({ name }) => name === "capacity")).toHaveLength(1);
});

test.each([
  [{ workers: 2, needed: 5, recommended: 5 }, "3 more", ""],
  [{ workers: 2, needed: 2, recommended: 2 }, "as now", ""],
  [
    { workers: 4, needed: 1, recommended: 2 },
    "2 fewer",
    "1 needed; the others are kept, so that a small change of load stops no worker",
  ],
  [
    { workers: 2, needed: 1, recommended: 2 },
    "as now",
    "1 needed; the others are kept, so that a small change of load stops no worker",
  ],
  [{ workers: 2, needed: 1, recommended: 3 }, "1 more", "1 needed; the others by a rule"],
  [{ workers: 2, needed: 9, recommended: 2 }, "as now", "9 needed, held back by this"],
])("the words of a recommendation: %o", (pool, change, because) => {
  expect(recommendationText(pool)).toEqual({ change, because });
});
