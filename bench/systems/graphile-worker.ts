import { notOffered, type Client, type Config, type Payload, type Stores } from "../core/types.ts";
import { loadPeer } from "./load-peer.ts";
import { payloadSql, Sql } from "./sql.ts";

type Preset = {
  worker: {
    connectionString: string;
    concurrentJobs?: number;
    maxPoolSize?: number;
    localQueue?: { size: number };
    completeJobBatchDelay?: number;
    failJobBatchDelay?: number;
    logger: unknown;
  };
};
type Graphile = {
  Logger: new (factory: () => () => void) => unknown;
  makeWorkerUtils: (options: { preset: Preset }) => Promise<{
    migrate(): Promise<void>;
    addJob(task: string, payload: Payload, spec?: { priority?: number }): Promise<unknown>;
    addJobs(specs: { identifier: string; payload: Payload }[]): Promise<unknown>;
    release(): Promise<void>;
  }>;
  run: (options: {
    preset: Preset;
    noHandleSignals: boolean;
    taskList: Record<string, (payload: Payload) => Promise<void>>;
    crontab: string;
  }) => Promise<{ stop(): Promise<void> }>;
};

/** Fast: the preset with which its documentation reports its highest throughput. */
const tuned = {
  concurrentJobs: 24,
  maxPoolSize: 26,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};

export async function open({ postgres }: Stores, config: Config): Promise<Client> {
  const { Logger, makeWorkerUtils, run } = await loadPeer<Graphile>("graphile-worker");
  const logger = new Logger(() => () => undefined);
  const sql = new Sql(postgres);
  const preset = {
    worker: { connectionString: postgres, logger, ...(config === "fast" ? tuned : {}) },
  };
  const utils = await makeWorkerUtils({ preset });
  let runner: { stop(): Promise<void> } | undefined;
  return {
    prepare: async () => {
      await utils.migrate();
      await sql.run("truncate graphile_worker._private_jobs, graphile_worker._private_job_queues");
    },
    enqueueOne: async (payload, settings) => await utils.addJob("noop", payload, settings),
    enqueueBulk: async (payloads) =>
      await utils.addJobs(payloads.map((payload) => ({ identifier: "noop", payload }))),
    enqueueInTransaction: async (tx, payload) =>
      await tx.query("select graphile_worker.add_job('noop', $1)", [JSON.stringify(payload)]),
    fill: async (count, state) => {
      if (state === "finished") throw notOffered("graphile-worker", "history");
      await sql.run(
        `select count(*) from graphile_worker.add_jobs(array(
          select row('noop', (${payloadSql})::json, null, now() + interval '${state === "scheduled" ? "1 day" : "0"}', null, null, null, null)
            ::graphile_worker.job_spec from generate_series(1, $1) n))`,
        [count],
      );
      await sql.run("vacuum analyze");
    },
    // Its own concurrency limit is the named queue, whose jobs run one at a time: as many queues as jobs may run at once.
    limit: async (max) => {
      await sql.run(
        "insert into graphile_worker._private_job_queues (queue_name) select 'q' || n from generate_series(1, $1::integer) n",
        [max],
      );
      await sql.run(
        `update graphile_worker._private_jobs j
         set job_queue_id = q.id
         from (select id, row_number() over (order by id) as n from graphile_worker._private_job_queues) q
         where q.n = 1 + j.id % $1::integer`,
        [max],
      );
      await sql.run("vacuum analyze");
    },
    pending: async () =>
      await sql.isTrue(
        "exists (select from graphile_worker._private_jobs where run_at < now() + interval '1 hour')",
      ),
    work: async (onJob) => {
      runner = await run({
        preset,
        noHandleSignals: true,
        taskList: { noop: async (payload) => await onJob(payload) },
        crontab: "",
      });
    },
    close: async () => {
      await runner?.stop();
      await utils.release();
      await sql.end();
    },
  };
}
