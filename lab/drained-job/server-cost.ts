import { readFile } from "node:fs/promises";
import { Client } from "pg";

/** One way to lay out the tables and to word the two statements of a drained job. */
export type Variant = {
  readonly name: string;
  readonly migrate: (options: { connection: string }) => Promise<unknown>;
  /** Run after the migrations, on empty tables. */
  readonly schema?: string;
  readonly enqueue: Text;
  readonly claim: Text;
  readonly settle: Text;
  /** The columns that the settle needs of each claimed job, in the order of its array parameters. Default: id and epoch. */
  readonly settledBy?: readonly string[];
};

export type Text = { readonly text: string; readonly values: readonly unknown[] };

/** Microseconds of the backend's processor time per job, those of them in the kernel, and bytes of write-ahead log. */
export type Cost = {
  enqueueUs: number;
  claimUs: number;
  settleUs: number;
  kernelUs: number;
  walBytes: number;
};

/** How many jobs, and how many of them in each statement. */
export type Size = { readonly jobs: number; readonly batch: number };

/** Drain `jobs` jobs through one connection: claims of `batch` jobs, each followed by its settle. All are enqueued before, by statements of as many. */
export async function measure(url: string, variant: Variant, size: Size): Promise<Cost> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query("set client_min_messages = warning; drop schema if exists stint cascade");
    await variant.migrate({ connection: url });
    // Vacuum runs between the measurements, not beside them.
    await client.query("alter table stint.job set (autovacuum_enabled = false)");
    if (variant.schema !== undefined) await client.query(variant.schema);
    const enqueueUs = (await fill(client, variant, size)) / 1000 / size.jobs;
    for (const text of ["vacuum analyze stint.job", "analyze stint.history", "checkpoint"])
      await client.query(text);
    return { enqueueUs, ...(await drain(client, variant, size)) };
  } finally {
    await client.end();
  }
}

/** Enqueues the jobs and returns the nanoseconds that the backend ran for it. */
async function fill(client: Client, { enqueue }: Variant, { jobs, batch }: Size): Promise<number> {
  const pid = await backendOf(client);
  const payload = JSON.stringify({ n: 1, at: 0, filler: "x".repeat(60) });
  // Ids in the order of time, as every client makes them.
  const { rows: ids } = await client.query<{ id: string }>(
    "select stint.new_id() as id from generate_series(1, $1)",
    [jobs],
  );
  let usedNs = 0;
  for (let first = 0; first < jobs; first += batch) {
    const some = ids.slice(first, first + batch);
    const values = enqueue.values.map((value) =>
      value === "ids"
        ? `{${some.map(({ id }) => id).join()}}`
        : value === "payloads"
          ? `[${some.map(() => payload).join()}]`
          : value,
    );
    const before = await cpuNs(pid);
    await client.query({ name: "enqueue", text: enqueue.text, values });
    usedNs += (await cpuNs(pid)) - before;
  }
  return usedNs;
}

async function backendOf(client: Client): Promise<number> {
  const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
  return rows[0]?.pid ?? 0;
}

async function drain(
  client: Client,
  { claim, settle, settledBy = ["id", "epoch"] }: Variant,
  { jobs, batch }: Size,
): Promise<Omit<Cost, "enqueueUs">> {
  const pid = await backendOf(client);
  const wal = await walPosition(client);
  const kernel = await kernelUs(pid);
  let claimNs = 0;
  let settleNs = 0;
  let drained = 0;
  for (;;) {
    const leaseId = crypto.randomUUID();
    const before = await cpuNs(pid);
    const { rows } = await client.query<Record<string, string | null>>({
      name: "claim",
      text: claim.text,
      values: claim.values.map((value) =>
        value === "lease" ? leaseId : value === "limit" ? [batch] : value,
      ),
    });
    const between = await cpuNs(pid);
    if (rows.length === 0) break;
    const fences = settledBy.map((column) => `{${rows.map((row) => `"${row[column] ?? 1}"`).join()}}`);
    const values = settle.values.flatMap((value) =>
      value === "fences"
        ? fences
        : value === "leases"
          ? [`{${leaseId}}`, `{${rows.map(() => 1).join()}}`]
          : value === "count"
            ? [rows.length]
            : [value],
    );
    await client.query({ name: "settle", text: settle.text, values });
    claimNs += between - before;
    settleNs += (await cpuNs(pid)) - between;
    drained += rows.length;
  }
  if (drained !== jobs) throw new Error(`${drained} of ${jobs} jobs were claimed`);
  const left = await client.query("select from stint.job");
  if (left.rowCount !== 0) throw new Error(`${left.rowCount} jobs were not settled`);
  const written = (await walPosition(client)) - wal;
  return {
    claimUs: claimNs / 1000 / jobs,
    settleUs: settleNs / 1000 / jobs,
    kernelUs: ((await kernelUs(pid)) - kernel) / jobs,
    walBytes: written / jobs,
  };
}

async function walPosition(client: Client): Promise<number> {
  const { rows } = await client.query<{ at: string }>("select pg_current_wal_insert_lsn() - '0/0' as at");
  return Number(rows[0]?.at);
}

/** Nanoseconds that this process has run, by the scheduler. */
async function cpuNs(pid: number): Promise<number> {
  return Number((await readFile(`/proc/${pid}/schedstat`, "utf8")).split(" ")[0]);
}

/** Microseconds that this process has run in the kernel, in steps of ten milliseconds. */
async function kernelUs(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[12]) * 10_000;
}
