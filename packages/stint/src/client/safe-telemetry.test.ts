import { describe, expect, test } from "vitest";
import type { ClaimedJob } from "../model/job.ts";
import type { Telemetry } from "../model/telemetry.ts";
import { safeTelemetry } from "./safe-telemetry.ts";

const broken = (): never => {
  throw new Error("broken");
};
const job = {} as ClaimedJob;
const end = { outcome: "succeeded", state: "succeeded" } as const;

const works: Telemetry = {
  enqueue: async (_jobs, send) => await send({ traceparent: "t" }),
  claimed: () => undefined,
  attempt: () => ({ traceId: "t", run: (work) => work(), ended: () => undefined }),
  quietly: (work) => work(),
};

function safe(given: Partial<Telemetry>): { telemetry: Telemetry; errors: unknown[] } {
  const errors: unknown[] = [];
  return { telemetry: safeTelemetry({ ...works, ...given }, (error) => void errors.push(error)), errors };
}

describe("telemetry that forgets", () => {
  test.each([
    ["to send", async () => undefined, [undefined]],
    [
      "to return",
      async (_jobs: unknown, send: (trace: undefined) => Promise<unknown>) => void (await send(undefined)),
      [undefined],
    ],
  ])("%s: the jobs are sent once, and the result is that of the send", async (_what, enqueue, traces) => {
    const { telemetry } = safe({ enqueue: enqueue as Telemetry["enqueue"] });
    const sent: unknown[] = [];
    const result = await telemetry.enqueue([], async (given) => {
      sent.push(given);
      return "sent";
    });

    expect({ result, sent }).toEqual({ result: "sent", sent: traces });
  });

  test("that an enqueue failed: the enqueue still fails", async () => {
    const { telemetry } = safe({
      enqueue: (async (_jobs: unknown, send: (trace: undefined) => Promise<unknown>) =>
        await send(undefined).catch(() => undefined)) as Telemetry["enqueue"],
    });
    const send = async (): Promise<never> => await Promise.reject(new Error("no database"));

    await expect(telemetry.enqueue([], send)).rejects.toThrow("no database");
  });

  test.each([
    ["to return", (work: () => unknown) => void work()],
    ["to work", () => undefined],
    ["that it worked", (work: () => unknown) => [work(), work()]],
  ])("%s: the work is done once, and its result counts", (_what, run) => {
    const { telemetry } = safe({
      attempt: () => ({ traceId: undefined, run: run as never, ended: () => undefined }),
    });
    let done = 0;

    expect(telemetry.attempt(job, "w").run(() => (done += 1))).toBe(1);
    expect(done).toBe(1);
  });
});

describe("telemetry that throws", () => {
  test.each([
    ["before it sends", broken, undefined],
    [
      "after it has sent",
      async (_jobs: unknown, send: (trace: { traceparent: string }) => Promise<unknown>) => {
        await send({ traceparent: "t" });
        return broken();
      },
      { traceparent: "t" },
    ],
  ])("%s: the jobs are sent once", async (_when, enqueue, trace) => {
    const { telemetry } = safe({ enqueue });
    const sent: unknown[] = [];
    const result = await telemetry.enqueue([], async (given) => {
      sent.push(given);
      return "sent";
    });

    expect({ result, sent }).toEqual({ result: "sent", sent: [trace] });
  });

  test("an enqueue that fails fails with its own error, and is not repeated", async () => {
    const { telemetry, errors } = safe({});
    let sent = 0;
    const send = async (): Promise<never> => {
      sent += 1;
      return await Promise.reject(new Error("no database"));
    };

    await expect(telemetry.enqueue([], send)).rejects.toThrow("no database");
    expect({ sent, errors }).toEqual({ sent: 1, errors: [] });
  });

  test.each([
    ["attempt", { attempt: broken }],
    ["attempt.run", { attempt: () => ({ ...works.attempt(job, "w"), run: broken }) }],
    ["attempt.ended", { attempt: () => ({ ...works.attempt(job, "w"), ended: broken }) }],
    ["claimed", { claimed: broken }],
    ["quietly", { quietly: broken }],
  ])("in %s: reported once, and the work is done once", (_where, given) => {
    const { telemetry, errors } = safe(given);
    let done = 0;
    telemetry.claimed([job], 1, "w");
    const trace = telemetry.quietly(() => telemetry.attempt(job, "w"));

    expect(trace.run(() => (done += 1))).toBe(1);
    trace.ended(end);
    expect(errors).toEqual([new Error("broken")]);
  });

  test("after the work: the result of the work counts", () => {
    const { telemetry, errors } = safe({
      quietly: (work) => {
        work();
        return broken();
      },
    });
    let done = 0;

    expect(telemetry.quietly(() => (done += 1))).toBe(1);
    expect(errors).toHaveLength(1);
  });

  test("an error of the work itself is the caller's", () => {
    const { telemetry, errors } = safe({});
    expect(() => telemetry.quietly(broken)).toThrow("broken");
    expect(errors).toEqual([]);
  });
});
