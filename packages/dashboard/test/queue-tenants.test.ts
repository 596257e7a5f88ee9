/** Tenants of a queue and keys of limits: exact or sampled, bounded, and hidden from roles that may not see them. */
import { defineJob, entry, typed } from "stint";
import type { Controls } from "stint/inspect";
import { expect, test } from "vitest";
import type { PresentedTenants } from "#dashboard/present-controls.js";
import { hostileText } from "./support/every-state.ts";
import { fakeStint } from "./support/fake.ts";
import { installation } from "./support/installation.ts";
import { open, request } from "./support/request.ts";

const send = defineJob("send", { payload: typed<{ to: string }>(), queue: "mail" });
const plain = defineJob("plain", { payload: typed<{ to: string }>(), queue: "plain" });

test("a fair queue shows every tenant with its weight, other queues a sample", async () => {
  const { stint } = await installation({ jobs: [send, plain] });
  await stint.queueSettings.set("mail", { fair: { by: "tenant", weights: { acme: 3 } } }, { reason: "x" });
  const tenants = ["acme", "acme", hostileText, undefined];
  await stint.enqueueMany(
    tenants.map((tenant) => entry(send, { to: "a" }, tenant === undefined ? {} : { tenant })),
  );
  await stint.enqueue(plain, { to: "a" }, { tenant: "acme" });
  const redact = ["payload.to"];
  const admin = open({ role: "admin" }, { stint, redact });
  const fair = (await request(admin, "/api/queues/tenants?queue=mail")).body as PresentedTenants;
  expect(fair.exact?.map(({ oldestReadyMs, ...rest }) => [rest, oldestReadyMs! >= 0])).toEqual(
    expect.arrayContaining([
      [{ tenant: "acme", weight: 3, ready: 2, running: 0 }, true],
      [{ tenant: hostileText, weight: 1, ready: 1, running: 0 }, true],
      [{ tenant: null, weight: 1, ready: 1, running: 0 }, true],
    ]),
  );
  expect((await request(admin, "/api/queues/tenants?queue=plain")).body).toEqual({
    tenants: [{ tenant: "acme", ready: 1 }],
    of: { count: 1, capped: false },
    fair: false,
    exact: null,
  });
  const viewer = open({ role: "view" }, { stint, redact });
  const hidden = await request(viewer, "/api/queues/tenants?queue=mail");
  expect([hidden.text.includes("acme"), hidden.body]).toMatchObject([
    false,
    { tenants: [], exact: null, hidden: true },
  ]);
});

test("a fair queue with too many jobs to count shows the sample", async () => {
  const sample = { tenants: [{ tenant: "acme", ready: 5 }], of: { count: 9, capped: true }, fair: true };
  const tooSlow = Object.assign(new Error("canceling statement"), { code: "57014" });
  const slow = open({ role: "admin" }, { stint: fakeStint({ waitingTenants: sample, tenants: tooSlow }) });
  expect((await request(slow, "/api/queues/tenants?queue=mail")).body).toEqual({ ...sample, exact: null });
});

test("keys of limits are bounded, and a search finds the others", async () => {
  const { fresh, stint } = await installation();
  const accounts = Array.from({ length: 102 }, (_, n) => `account-${n}`);
  await fresh.sql(
    `insert into stint.limit_place (job_id, key, holds, run_at)
     select gen_random_uuid(), 'key:account=' || account, false, now() from unnest($1::text[]) as account`,
    [[...accounts, hostileText]],
  );
  const redact = ["payload.account"];
  const admin = open({ role: "admin" }, { stint, redact });
  const shown = (await request(admin, "/api/controls")).body as Controls;
  expect([shown.keys.length, shown.moreKeys]).toEqual([100, true]);
  const found = async (search: string) =>
    (await request(admin, `/api/limits/keys?search=${encodeURIComponent(search)}`)).body as Controls;
  expect((await found("ACCOUNT-101")).keys.map(({ key }) => key)).toEqual(["key:account=account-101"]);
  expect((await found(hostileText)).keys.map(({ key }) => key)).toEqual([`key:account=${hostileText}`]);
  expect(await found("%")).toEqual({ keys: [], moreKeys: false, keysCapped: false });
  expect((await found("account")).moreKeys).toBe(true);
  for (const search of ["", "x".repeat(800), "a%00b"])
    expect((await request(admin, `/api/limits/keys?search=${search}`)).status).toBe(400);
  const viewer = open({ role: "operate" }, { stint, redact });
  expect((await request(viewer, "/api/limits/keys?search=account-101")).status).toBe(403);
});
