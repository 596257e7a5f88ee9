/** Bulk operations in production are confirmed by its name. */
import { describe, expect, test } from "vitest";
import { open, post } from "./support/request.ts";
import { fakeStint } from "./support/fake.ts";

describe("production", () => {
  const environment = { name: "live", production: true };
  const begin = { action: "cancel", filter: { queue: "mail" }, reason: "wrong template" };

  test.each([undefined, "", "Live", "demo", true])(
    "a bulk operation confirmed with %j is not begun",
    async (confirm) => {
      const stint = fakeStint();
      const response = await post(open({ role: "admin" }, { stint, environment }), "/api/operations", {
        ...begin,
        confirm,
      });
      expect([response.status, response.body]).toMatchObject([
        400,
        { error: { code: "CONFIRMATION_NEEDED" } },
      ]);
      expect(stint.calls).toEqual([]);
    },
  );

  test("a bulk operation confirmed with its name begins, with its actor and reason", async () => {
    const stint = fakeStint();
    const dashboard = open({ role: "operate", user: "ada" }, { stint, environment });
    expect((await post(dashboard, "/api/operations", { ...begin, confirm: "live" })).status).toBe(201);
    expect(stint.calls).toEqual([
      { name: "begin", args: ["cancel", { queue: "mail" }, { reason: "wrong template", actor: "ada" }] },
    ]);
  });
});

test("at the limit of running operations, another is refused with 409 and the fix", async () => {
  const message = "4 bulk operations are running already.";
  const begin = Object.assign(new Error(message), { code: "TOO_MANY_OPERATIONS" });
  const response = await post(open({ role: "operate" }, { stint: fakeStint({ begin }) }), "/api/operations", {
    action: "replay",
    filter: { state: ["dead"] },
    reason: "fixed",
  });
  expect([response.status, response.body]).toEqual([
    409,
    { error: { code: "TOO_MANY_OPERATIONS", message } },
  ]);
});
