/** Pauses and expiry, while workers are killed or stopped between their claim and the start of a job. */
import { expect, onTestFinished, test } from "vitest";
import { adminClient } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { holdClaims } from "../support/hold-claims.ts";
import { slice } from "../support/lab.ts";
import { until } from "../support/until.ts";
import {
  entered,
  expireLeases,
  scripted,
  startWorkerProcess,
  type WorkerProcess,
} from "../support/worker-process.ts";

/** Leases are long: only the test ends them. */
const worker = { lease: "1h", rescueEvery: 300, maxCrashes: 100 } as const;
const why = { reason: "test" };

/** A worker process that is stopped or killed while the database executes its claim of this job. The claim commits. */
async function interruptedClaim(
  fresh: Fresh,
  signal: "SIGKILL" | "SIGSTOP",
  enqueue: () => Promise<{ id: string }>,
): Promise<{ id: string; doomed: WorkerProcess }> {
  const admin = await adminClient(fresh.url);
  onTestFinished(() => admin.end());
  const held = await holdClaims(fresh, admin);
  const doomed = await startWorkerProcess(fresh, { worker });
  const { id } = await enqueue();
  const waiting = `select from pg_locks l join pg_stat_activity a using (pid)
    where l.locktype = 'advisory' and not l.granted and a.query like '%stint:claim%' and a.query like '%' || $1 || '%'`;
  await until(async () => (await fresh.sql(waiting, [fresh.schema])).length > 0, {
    message: "a claim has taken the job",
  });
  doomed.kill(signal);
  if (signal === "SIGKILL") await doomed.ended;
  await held.release();
  await until(
    async () =>
      (await fresh.sql("select from stint.job where id = $1 and state = 'running'", [id])).length > 0,
    { message: "the claim has committed" },
  );
  return { id, doomed };
}

test.each(slice(["SIGKILL", "SIGSTOP"] as const, (signal) => signal === "SIGSTOP"))(
  "a job whose worker got %s after its claim is parked by a pause, and runs later",
  { timeout: 240_000 },
  async (signal) => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    const { id, doomed } = await interruptedClaim(
      fresh,
      signal,
      async () => await stint.enqueue(scripted, { do: "succeed" }, { tenant: "acme" }),
    );
    await stint.pauses.pause({ tenant: "acme" }, why);
    await expireLeases(fresh);
    const other = await startWorkerProcess(fresh, { worker });
    await until(async () => (await stint.get(id))?.parkReason === "paused", { message: "it is parked" });
    expect(entered(other)).toEqual([]);

    await stint.pauses.resume({ tenant: "acme" }, why);
    await stint.waitFor(id, { timeout: "60s" });
    if (signal === "SIGSTOP") {
      // The first worker continues with a lease that it has lost: what it does to the job changes nothing.
      other.kill("SIGKILL");
      await other.ended;
      doomed.kill("SIGCONT");
      const next = await stint.enqueue(scripted, { do: "succeed" });
      await doomed.reported("settled", next.id);
    }
    expect(await stint.get(id)).toMatchObject({ state: "succeeded", result: { pid: other.pid }, crashes: 1 });
    await until(async () => (await fresh.sql("select from stint.pause")).length === 0, {
      message: "the pause is forgotten",
    });
    expect(await fresh.sql("select from stint.paused_job")).toEqual([]);
  },
);

test("a job that expires while its worker is stopped after the claim never runs", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  // From its first claim on: before, upkeep would cancel it on a busy machine. A worker that wakes up late may give the claim up and claim again.
  await fresh.sql(`create function stint.expire_soon() returns trigger language plpgsql as $$
    begin
      new.expires_at := clock_timestamp() + interval '1 second';
      return new;
    end $$`);
  await fresh.sql(`create trigger expire_soon before update on stint.job for each row
    when (old.state = 'ready' and new.state = 'running' and old.expires_at > clock_timestamp() + interval '30 minutes')
    execute function stint.expire_soon()`);
  const { id, doomed } = await interruptedClaim(
    fresh,
    "SIGSTOP",
    async () => await stint.enqueue(scripted, { do: "succeed" }, { expiresIn: "1h" }),
  );
  await until(
    async () => (await fresh.sql("select from stint.job where expires_at < clock_timestamp()")).length > 0,
    { message: "it has expired" },
  );
  doomed.kill("SIGCONT");
  await until(async () => (await stint.get(id))?.state === "cancelled", { message: "it is cancelled" });
  expect(await stint.get(id)).toMatchObject({ reason: "expired" });
  expect(entered(doomed)).toEqual([]);
});
