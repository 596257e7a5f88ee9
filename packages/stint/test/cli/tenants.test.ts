import { expect, test } from "vitest";
import { defineJob, entry, typed } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { stintOn } from "./support.ts";

const mail = defineJob("mail", { queue: "emails", payload: typed<object>() });

test("tenants shows the exact depth by tenant, and changes weights in a fair queue", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  const stint = fresh.client();
  const none = await run("tenants", "emails");
  await stint.enqueueMany([
    ...Array.from({ length: 3 }, () => entry(mail, {}, { tenant: "acme" })),
    entry(mail, {}, { tenant: "globex" }),
    entry(mail, {}),
  ]);
  const plain = await run("tenants", "emails");
  const refused = await run("tenants", "weight", "emails", "acme", "3", "--reason", "x");
  const set = await run("queues", "set", "emails", "--fair", "tenant", "--reason", "one tenant fills it");
  const weight = await run("tenants", "weight", "emails", "acme", "3", "--reason", "pays for more");
  const wrong = await run("tenants", "weight", "emails", "acme", "0", "--reason", "x");
  const fair = await run("tenants", "emails", "--json");
  const show = await run("queues", "show", "emails");

  expect(none.stderr).toBe("Queue emails has no ready or running job.\n");
  expect(plain.stdout).toMatch(/^acme +1 +3 +0 /m);
  expect(plain.stdout).toMatch(/^none +1 +1 +0 /m);
  expect(plain.stderr).toContain("Queue emails is not fair");
  expect(refused).toMatchObject({ code: 2, stdout: "" });
  expect(set.stdout).toContain("The claim order of emails is now tenants take turns.");
  expect(weight.stdout).toBe("The weight of acme in emails is now 3.\n");
  expect(wrong.code).not.toBe(0);
  expect(JSON.parse(fair.stdout)).toMatchObject({
    queue: "emails",
    fair: true,
    tenants: [
      { tenant: "acme", weight: 3, ready: 3, running: 0 },
      { tenant: "globex", weight: 1, ready: 1 },
      { tenant: null, weight: 1, ready: 1 },
    ],
  });
  expect(show.stdout).toContain('tenants take turns, weights {"acme":3}');
});
