import { fileURLToPath, pathToFileURL } from "node:url";
import { describe, expect, test } from "vitest";
import { defineJob, handle, steps, typed, type EnqueueOptions } from "#stint/index.js";
import { isAlive } from "#stint/embedded/processes.js";
import { inLab } from "../support/lab.ts";
import { until } from "../support/until.ts";
import { untilEnded } from "../support/processes.ts";
import { sharedWorker } from "../support/watch.ts";
import { builtProgram } from "../support/worker-process.ts";

type Act = { do: string };
const options = { payload: typed<Act>(), backoff: steps(0), attempts: 2, maxCrashes: 2 };
const inThread = defineJob("in-thread", options);
const inProcess = defineJob("in-process", options);
const inParent = defineJob("in-parent", options);

/** With the library in the same file, except in the lab: each crash costs a new process, which loads it. */
function fileOf(name: string): URL {
  const file = new URL(`../fixtures/isolated/${name}.mjs`, import.meta.url);
  return inLab ? file : pathToFileURL(builtProgram(fileURLToPath(file)));
}

const shared = sharedWorker(() => ({
  pools: { default: 6 },
  abort: "500ms",
  maxTimeout: "2h",
  handlers: [
    handle(inThread, fileOf("in-thread"), { isolate: { in: "thread", memory: "64mb" } }),
    handle(inProcess, fileOf("in-process"), { isolate: { in: "process", memory: "64mb" } }),
    handle(inParent, () => process.pid),
  ],
}));

type Ended = Awaited<ReturnType<typeof run>>;

/** Run a job to its end, whatever that is. */
async function run(kind: typeof inThread, payload: Act, enqueueOptions: EnqueueOptions = {}) {
  const { stint } = shared();
  const { id } = await stint.enqueue(kind, payload, enqueueOptions);
  const job = await until(
    async () => {
      const found = await stint.get(id);
      return found !== undefined &&
        ["succeeded", "dead", "cancelled", "scheduled", "retrying"].includes(found.state)
        ? found
        : undefined;
    },
    { message: `${kind.kind} ${payload.do} has ended` },
  );
  return job!;
}

/** Enqueue a job, and wait until its handler runs. Returns its id and the process that it runs in. */
async function begin(
  kind: typeof inThread,
  payload: Act,
  enqueueOptions: EnqueueOptions = {},
): Promise<{ id: string; pid: number }> {
  const { stint } = shared();
  const { id } = await stint.enqueue(kind, payload, enqueueOptions);
  const pid = await until(
    async () => {
      const { progress } = await stint.steps(id);
      return /^begun (\d+)$/.exec(progress?.lines[0]?.text ?? "")?.[1];
    },
    { message: `${kind.kind} ${payload.do} has begun` },
  );
  return { id, pid: Number(pid) };
}

const ended = async (id: string): Promise<Ended> =>
  (await until(
    async () => {
      const job = await shared().stint.get(id);
      return job !== undefined && ["succeeded", "dead", "cancelled"].includes(job.state) ? job : undefined;
    },
    { message: `job ${id} has ended` },
  ))!;

for (const [where, kind] of [
  ["thread", inThread],
  ["process", inProcess],
] as const) {
  describe(`a handler in its own ${where}`, () => {
    test("gets the values of its context, and returns its result", async () => {
      const job = await run(kind, { do: "values" }, { tenant: "acme", tags: ["a"], key: "k" });
      expect(job).toMatchObject({
        state: "succeeded",
        attempts: 1,
        result: {
          id: job.id,
          kind: `in-${where}`,
          queue: "default",
          key: "k",
          attempt: 1,
          maxAttempts: 2,
          run: 1,
          isDate: true,
          tenant: "acme",
          tags: ["a"],
          schedule: null,
          isMainThread: where === "process",
        },
      });
      const { pid } = job.result as { pid: number };
      expect(pid === process.pid).toBe(where === "thread");
    });

    test("is kept for the next jobs of its kind", async () => {
      const first = (await run(kind, { do: "where" })).result as { pid: number; attemptsHere: number };
      const second = (await run(kind, { do: "where" })).result as { pid: number; attemptsHere: number };
      expect(second.pid).toBe(first.pid);
      expect(second.attemptsHere).toBe(first.attemptsHere + 1);
    });

    test("that runs out of memory costs its job a crash, and then its life", async () => {
      const job = await run(kind, { do: "heap" });
      expect(job).toMatchObject({ state: "dead", attempts: 0, crashes: 2 });
      expect(job.reason).toMatch(
        /^its handler crashed 2 times: HandlerCrashedError: .* ran out of memory \(more than 64 MB\)/,
      );
      expect(job.log).toMatchObject([
        { outcome: "crashed", error: { class: "HandlerCrashedError", code: "HANDLER_CRASHED" } },
        {
          outcome: "crashed",
          error: { message: expect.stringContaining(`the ${where} of its handler ran out of memory`) },
        },
      ]);
      expect((await run(inParent, { do: "continue" })).result).toBe(process.pid);
    });

    test("that exits is recorded with its exit code", async () => {
      const job = await run(kind, { do: "exit" }, { maxCrashes: 1 });
      expect(job).toMatchObject({ state: "dead", crashes: 1 });
      expect(job.log[0]?.error?.message).toContain("ended with exit code 3 before the handler had returned");
    });

    test("that throws outside of its handler is recorded with that error", async () => {
      const job = await run(kind, { do: "uncaught" }, { maxCrashes: 1 });
      expect(job).toMatchObject({ state: "dead", crashes: 1 });
      expect(job.log[0]?.error?.causes?.[0]?.message).toContain("thrown outside of the handler");
    });

    test("that spins is ended at its timeout, and its slot is free", async () => {
      const job = await run(kind, { do: "spin" }, { timeout: "300ms", attempts: 1 });
      expect(job).toMatchObject({ state: "dead", attempts: 1, crashes: 0 });
      expect(job.log).toMatchObject([{ outcome: "timed-out" }]);
      await until(() => shared().worker.running === 0, { message: "no attempt is left" });
    });

    test("that blocks is ended when its job is cancelled", async () => {
      const { id } = await begin(kind, { do: "block" });
      await shared().stint.cancel(id);
      expect(await ended(id)).toMatchObject({ state: "cancelled", crashes: 0 });
    });

    test("is aborted by its signal, with the reason", async () => {
      const { id } = await begin(kind, { do: "hang" });
      await shared().stint.cancel(id);
      const job = await ended(id);
      expect(job).toMatchObject({ state: "cancelled", log: [{ error: { code: "CANCELLED" } }] });
    });

    test("has steps, checkpoints and their rules", async () => {
      const job = await run(kind, { do: "steps" });
      expect(job).toMatchObject({ state: "succeeded", attempts: 2 });
      expect(job.result).toMatchObject({
        last: { row: 7 },
        refused: "INVALID_OPTION",
        nested: "INVALID_OPTION",
      });
      const { first } = job.result as { first: { at: number } };
      const [step] = (await shared().stint.steps(job.id)).steps;
      expect(step).toMatchObject({ name: "first", result: first });
    });

    test("sleeps and waits for signals without its thread or process", async () => {
      expect(await run(kind, { do: "sleep" })).toMatchObject({
        state: "succeeded",
        attempts: 1,
        crashes: 0,
        result: { signalled: "timed out" },
      });
    });

    test("reports progress, lines and log lines, and extends its timeout", async () => {
      const job = await run(kind, { do: "report" }, { timeout: "30s" });
      const { progress } = await shared().stint.steps(job.id);
      expect(progress).toMatchObject({ fraction: 0.5, note: "half", lines: [{ text: "a line" }] });
      expect((job.result as { left: number }).left).toBeGreaterThan(59_000);
    });

    test("that reports in a loop keeps its memory, and the latest report", async () => {
      const job = await run(kind, { do: "report-much" });
      expect(job).toMatchObject({ state: "succeeded", crashes: 0 });
      const { progress } = await shared().stint.steps(job.id);
      expect(progress).toMatchObject({ fraction: 1, note: "200000" });
      expect(progress?.lines.at(-1)).toMatchObject({ text: "line 200000" });
    });

    test("throws errors that keep their class, code, cause and meaning", async () => {
      expect((await run(kind, { do: "throw" })).log[0]?.error).toMatchObject({
        class: "TypeError",
        message: "bad",
        code: "E_BAD",
        stack: expect.stringContaining(inLab ? "act.mjs" : `isolated-in-${where}.mjs`),
        causes: [{ class: "Error", message: "why" }],
      });
      expect((await run(kind, { do: "throw-text" })).log[0]?.error).toMatchObject({
        class: "string",
        message: "text",
      });
      expect(await run(kind, { do: "revoked" })).toMatchObject({ attempts: 2, crashes: 0 });
      expect(await run(kind, { do: "permanent" })).toMatchObject({
        state: "dead",
        attempts: 1,
        reason: "permanent error: CardDeclined: declined",
      });
      const limited = await run(kind, { do: "rate-limited" });
      expect(limited).toMatchObject({ state: "retrying", attempts: 1 });
      expect(limited.runAt.getTime() - limited.createdAt.getTime()).toBeGreaterThanOrEqual(3_600_000);
    });

    test("returns outcomes, and a value that cannot be sent is stored as null", async () => {
      expect(await run(kind, { do: "snooze" })).toMatchObject({ state: "scheduled", attempts: 0 });
      expect(await run(kind, { do: "cancel" })).toMatchObject({ state: "cancelled", reason: "not needed" });
      expect(await run(kind, { do: "unsendable" })).toMatchObject({ state: "succeeded", result: null });
    });

    test("cannot have a transaction or follow-ups, with a clear error", async () => {
      expect((await run(kind, { do: "refused" })).result).toEqual({
        complete: "INVALID_OPTION",
        spawn: "INVALID_OPTION",
        continueWith: "INVALID_OPTION",
        waitForChildren: "INVALID_OPTION",
      });
    });

    test("cannot be fooled by messages of other code in it", async () => {
      expect(await run(kind, { do: "hostile" })).toMatchObject({
        state: "succeeded",
        result: "real",
        attempts: 1,
      });
    });

    test("fails if a step that it does not await fails", async () => {
      expect((await run(kind, { do: "unawaited" })).log[0]?.error).toMatchObject({ message: "not awaited" });
    });
  });
}

describe("a handler in its own process", () => {
  test("that disconnects from its worker fails with the reason", async () => {
    const job = await run(inProcess, { do: "disconnect" });
    expect(job).toMatchObject({ attempts: 2, crashes: 0 });
    expect(job.log[0]?.error?.message).toContain("must not call process.disconnect()");
  });

  test("that is killed is recorded with the signal", async () => {
    const { id, pid } = await begin(inProcess, { do: "ignore" }, { maxCrashes: 1 });
    process.kill(pid, "SIGKILL");
    const job = await ended(id);
    expect(job).toMatchObject({ state: "dead", attempts: 0, crashes: 1 });
    expect(job.reason).toContain("was killed by SIGKILL");
  });

  test("that has started a program ends with it", async () => {
    const { id, pid } = await begin(inProcess, { do: "fork" }, { maxCrashes: 1 });
    expect((await ended(id)).reason).toContain("ended with exit code 3");
    await untilEnded(pid);
  });

  test("is recorded at its end, also if a program of its own runs on", async () => {
    const { id, pid } = await begin(inProcess, { do: "fork-away" }, { maxCrashes: 1 });
    try {
      expect((await ended(id)).reason).toContain("ended with exit code 3");
      expect(isAlive(pid)).toBe(true);
    } finally {
      process.kill(pid, "SIGKILL");
    }
  });

  test("that is paused is ended at its timeout", async () => {
    const { id, pid } = await begin(inProcess, { do: "ignore" }, { timeout: "5s", attempts: 1 });
    process.kill(pid, "SIGSTOP");
    expect(await ended(id)).toMatchObject({ state: "dead", log: [{ outcome: "timed-out" }] });
    await untilEnded(pid);
  });

  test.skipIf(process.platform !== "linux")("has its cap for memory outside of the heap, too", async () => {
    const job = await run(inProcess, { do: "buffers" });
    expect(job).toMatchObject({ state: "dead", crashes: 2 });
    expect(job.reason).toContain("ran out of memory");
  });

  test("that ended while it was idle costs the next job nothing", async () => {
    const { pid } = (await run(inProcess, { do: "where" })).result as { pid: number };
    process.kill(pid, "SIGKILL");
    const job = await run(inProcess, { do: "where" });
    expect(job).toMatchObject({ state: "succeeded", attempts: 1, crashes: 0 });
    expect(isAlive((job.result as { pid: number }).pid)).toBe(true);
  });
});
