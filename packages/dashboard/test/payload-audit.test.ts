/** The audit records each view of a payload, once per visit. */
import { silentLogger } from "stint";
import { expect, test } from "vitest";
import type { AuditEvent } from "#dashboard/index.js";
import { PayloadAudit } from "#dashboard/payload-audit.js";
import { localVisitor } from "#dashboard/access.js";
import { request, open } from "./support/request.ts";
import { jobId } from "./support/fake.ts";

test("the audit gets who saw which payload, and nothing of refused viewers", async () => {
  const reported: AuditEvent[] = [];
  const onAudit = (event: AuditEvent): void => void reported.push(event);
  await request(open({ role: "admin", user: "ada" }, { onAudit }), `/api/jobs/${jobId}`);
  await request(open({ role: "operate", user: "bob" }, { onAudit }), `/api/jobs/${jobId}`);

  expect(reported).toEqual([
    { action: "payload-seen", user: "ada", job: jobId, schedule: null, kind: "work", at: expect.any(Date) },
  ]);
});

test("a payload is not shown if its audit fails", async () => {
  const onAudit = async (): Promise<void> => {
    throw new Error("the disk of the audit is full");
  };
  const response = await request(open({ role: "admin" }, { onAudit }), `/api/jobs/${jobId}`);
  expect(response.status).toBe(500);
  expect(response.text).not.toContain("of the payload");
  expect(response.text).not.toContain("disk");
});

test("a failing audit is not reported as a database failure", async () => {
  const written: unknown[] = [];
  const logger = { ...silentLogger, error: (details: object) => void written.push(details) };
  const cause = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
  const onAudit = async (): Promise<void> => {
    throw cause;
  };
  const response = await request(open({ role: "admin" }, { onAudit, logger }), `/api/jobs/${jobId}`);
  expect([response.status, response.body]).toMatchObject([500, { error: { code: "INTERNAL" } }]);
  expect(written).toMatchObject([{ err: { message: expect.stringContaining("onAudit failed"), cause } }]);
});

test("a screen that refreshes is one audit entry per ten minutes", async () => {
  let now = 0;
  const reported: string[] = [];
  const payloadAudit = new PayloadAudit(
    ({ job }) => void reported.push(job ?? ""),
    () => now,
  );
  const look = async (id: string) => await payloadAudit.record(localVisitor, { job: id, kind: "work" });
  await look("a");
  await look("a");
  await look("b");
  now = 10 * 60_000;
  await look("a");
  expect(reported).toEqual(["a", "b", "a"]);
});
