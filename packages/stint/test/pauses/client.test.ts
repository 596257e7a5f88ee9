import { expect, test } from "vitest";
import { InvalidOptionError, type PauseOptions, type PauseTarget } from "#stint/index.js";
import { sharedSchema } from "../support/fresh.ts";

const fresh = sharedSchema();
const because = { reason: "maintenance" };

test.each<[unknown, unknown, string]>([
  [{}, because, "must name one of queue, kind, tenant, key"],
  [{ queue: "a", kind: "b" }, because, "got queue and kind"],
  [{ qeue: "a" }, because, 'did you mean "queue"?'],
  [undefined, because, "must be an object"],
  [{ queue: "" }, because, "queue"],
  [{ queue: "a**" }, because, "must not contain **"],
  [{ kind: 7 }, because, "kind"],
  [{ tenant: "" }, because, "must not be empty"],
  [{ key: "x".repeat(513) }, because, "at most 512"],
  [{ queue: "a" }, {}, "reason: is required"],
  [{ queue: "a" }, undefined, "reason: is required"],
  [{ queue: "a" }, { reason: "" }, "must not be empty"],
  [{ queue: "a" }, { ...because, resaon: "x" }, 'did you mean "reason"?'],
  [{ queue: "a" }, { ...because, for: 0 }, "for"],
  [{ queue: "a" }, { ...because, for: NaN }, "for"],
  [{ queue: "a" }, { ...because, for: "1h", until: new Date(Date.now() + 9e6) }, "not both"],
  [{ queue: "a" }, { ...because, until: new Date(0) }, "later time"],
  [{ queue: "a" }, { ...because, until: "tomorrow" }, "valid Date"],
])("pausing %j with %j is refused", async (target, options, message) => {
  const stint = fresh().client();
  const refused = stint.pauses.pause(target as PauseTarget, options as PauseOptions);
  await expect(refused).rejects.toThrow(InvalidOptionError);
  await expect(stint.pauses.pause(target as PauseTarget, options as PauseOptions)).rejects.toThrow(message);
  expect(await stint.pauses.list()).toEqual([]);
});

test("a pause is listed with who, why and until, and audited with its resume", async () => {
  const stint = fresh().client({ actor: "ann" });
  const until = new Date(Date.now() + 3_600_000);
  await stint.pauses.pause({ kind: "charge" }, { reason: "double charges", until });
  expect(await stint.pauses.list()).toEqual([
    {
      scope: "kind",
      name: "charge",
      until,
      reason: "double charges",
      pausedBy: "ann",
      pausedAt: expect.any(Date) as Date,
      parkedJobs: 0,
    },
  ]);
  expect(await stint.pauses.resume({ kind: "charge" }, { reason: "fixed", actor: "bob" })).toBe(true);
  expect(await stint.pauses.resume({ kind: "charge" }, { reason: "again" })).toBe(false);
  expect(await stint.pauses.list()).toEqual([]);
  expect(await stint.pauses.audit({ kind: "charge" })).toMatchObject([
    { action: "resume", actor: "bob", reason: "fixed" },
    { action: "pause", actor: "ann", reason: "double charges", change: { until: { from: null } } },
  ]);
});

test("the audit of a queue shows its pauses", async () => {
  const stint = fresh().client();
  await stint.pauses.pause({ queue: "emails" }, because);
  await stint.pauses.resume({ queue: "emails" }, because);
  expect((await stint.queueSettings.audit("emails")).map(({ action }) => action)).toEqual([
    "resume",
    "pause",
  ]);
});

test("pausing again replaces the reason and the time, and keeps its beginning", async () => {
  const stint = fresh().client();
  await stint.pauses.pause({ tenant: "acme" }, { reason: "first", for: "1h" });
  const [first] = await stint.pauses.list();
  await stint.pauses.pause({ tenant: "acme" }, { reason: "second" });
  expect(await stint.pauses.list()).toEqual([{ ...first, reason: "second", until: null }]);
  await stint.pauses.resume({ tenant: "acme" }, because);
});

test("names of tenants and keys may be any text", async () => {
  const stint = fresh().client();
  for (const name of ["*", "a b", "'; drop table stint.job; --", "ünïcode 🦀", "$1", "%", "x".repeat(512)]) {
    await stint.pauses.pause({ key: name }, because);
    expect(await stint.pauses.resume({ key: name }, because)).toBe(true);
  }
});
