/** A change of a waiting job: audited, checked, and only for roles that may operate. */
import { expect, test } from "vitest";
import { embed, installation } from "./support/installation.ts";
import { jobId } from "./support/fake.ts";
import { open, post } from "./support/request.ts";

test("a waiting job gets another priority and run time, and the change is audited", async () => {
  const { stint } = await installation();
  const { id } = await stint.enqueue(embed, { n: 1 }, { delay: "1h" });
  const dashboard = open({ role: "operate", user: "ada" }, { stint });
  const change = async (body: object, job = id) =>
    await post(dashboard, `/api/jobs/${job}/change`, { reason: "urgent", ...body });
  expect((await change({ priority: -5 })).body).toEqual({});
  const before = await stint.get(id);
  expect([before?.priority, before?.state]).toEqual([-5, "scheduled"]);
  expect((await change({ delay: "2d" })).status).toBe(200);
  const after = await stint.get(id);
  expect(after!.runAt.getTime()).toBeGreaterThan(before!.runAt.getTime());
  expect((await change({ runAt: "2090-01-01T00:00:00Z" })).status).toBe(200);
  expect((await stint.get(id))?.runAt.toISOString()).toBe("2090-01-01T00:00:00.000Z");
  expect((await stint.audit(id)).map(({ actor, action, reason }) => [actor, action, reason])).toEqual(
    Array.from({ length: 3 }, () => ["ada", "change", "urgent"]),
  );

  const bad: readonly (readonly [body: object, says: string])[] = [
    [{}, "change"],
    [{ priority: "5" }, "priority"],
    [{ priority: 1.5 }, "priority"],
    [{ priority: null }, "priority"],
    [{ delay: "soon" }, "delay"],
    [{ delay: 5 }, "delay"],
    [{ runAt: "tomorrow" }, "runAt"],
    [{ delay: "1h", runAt: "2090-01-01T00:00:00Z" }, "delay"],
    [{ payload: { n: 2 } }, "nothing else"],
    [{ priority: 1, reason: "" }, "reason"],
  ];
  for (const [body, says] of bad) {
    const refused = await change(body);
    expect([body, refused.status, refused.text]).toEqual([body, 400, expect.stringContaining(says)]);
  }
  expect((await change({ priority: 1 }, jobId)).status).toBe(404);
  await stint.cancel(id);
  expect((await change({ priority: 1 })).status).toBe(409);
  const viewer = open({ role: "view" }, { stint });
  expect((await post(viewer, `/api/jobs/${id}/change`, { priority: 1, reason: "x" })).status).toBe(403);
});
