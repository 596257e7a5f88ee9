import { randomUUID } from "node:crypto";
import { Pool, type ClientBase } from "pg";
import { makePayload } from "../actor/payload.ts";
import type { Client, Config, FlowShape, Payload, Stores } from "../core/types.ts";
import { cloneRows } from "./clone-rows.ts";
import { loadPeer } from "./load-peer.ts";
import { Sql } from "./sql.ts";

type Enqueue = {
  queueName: string;
  workflowName: string;
  priority?: number;
  delaySeconds?: number;
};
type DbosClient = {
  enqueue(options: Enqueue, payload: Payload): Promise<unknown>;
  enqueueInTransaction(tx: ClientBase, options: Enqueue, payload: Payload): Promise<unknown>;
  registerQueue(
    name: string,
    options: { workerConcurrency?: number; minPollingIntervalMs?: number },
  ): Promise<unknown>;
  destroy(): Promise<void>;
};
type Run = (payload: Payload) => Promise<void>;
type TreePayload = Payload & { readonly shape: FlowShape };
type Logger = Record<"info" | "debug" | "warn" | "error", () => void>;
type Module = {
  DBOS: {
    migrate(url: string): Promise<void>;
    setConfig(config: {
      name: string;
      systemDatabaseUrl: string;
      executorID: string;
      applicationVersion: string;
      logger: Logger;
    }): void;
    runStep<T>(run: () => Promise<T>, options: { name: string }): Promise<T>;
    registerWorkflow(run: (payload: Payload) => Promise<void>, options: { name: string }): unknown;
    startWorkflow(
      run: Run,
      options: { queueName: string },
    ): (payload: Payload) => Promise<{ getResult(): Promise<unknown> }>;
    launch(): Promise<void>;
    shutdown(): Promise<void>;
  };
  DBOSClient: {
    create(options: {
      systemDatabaseUrl: string;
      applicationName: string;
      logger: Logger;
    }): Promise<DbosClient>;
  };
};

const name = "bench";
const silent = (): void => undefined;
const logger: Logger = { info: silent, debug: silent, warn: silent, error: silent };
const queueOptions = { default: {}, fast: { workerConcurrency: 1000, minPollingIntervalMs: 50 } };

export async function open({ postgres }: Stores, config: Config): Promise<Client> {
  const { DBOS, DBOSClient } = await loadPeer<Module>("@dbos-inc/dbos-sdk");
  // A queue keeps its settings, so each config has its own.
  const target: Enqueue = { queueName: `noop-${config}`, workflowName: "noop" };
  const sql = new Sql(postgres);
  const pool = new Pool({ connectionString: postgres, max: 1 });
  pool.on("error", silent);
  const client = await DBOSClient.create({ systemDatabaseUrl: postgres, applicationName: name, logger });
  let launched = false;
  const launch = async (onJob: (payload: Payload) => Promise<void>): Promise<void> => {
    launched = true;
    DBOS.setConfig({
      name,
      systemDatabaseUrl: postgres,
      // Processes with the same executor id would recover each other's running workflows at launch.
      executorID: `bench-${process.pid}`,
      applicationVersion: "1",
      logger,
    });
    DBOS.registerWorkflow(onJob, { name: target.workflowName });
    await DBOS.launch();
  };
  return {
    prepare: async () => {
      // Migrates here and not in `open`: two processes that migrate at the same time fail.
      await DBOS.migrate(postgres);
      await client.registerQueue(target.queueName, queueOptions[config]);
      await sql.run("truncate dbos.workflow_status, dbos.workflow_input, dbos.workflow_output cascade");
    },
    enqueueOne: async (payload, settings = {}) => await client.enqueue({ ...target, ...settings }, payload),
    // DBOS has no bulk enqueue; one transaction is the closest equivalent.
    enqueueBulk: async (payloads) => {
      const tx = await pool.connect();
      try {
        await tx.query("begin");
        for (const payload of payloads) await client.enqueueInTransaction(tx, target, payload);
        await tx.query("commit");
      } finally {
        tx.release();
      }
    },
    enqueueInTransaction: async (tx, payload) => await client.enqueueInTransaction(tx, target, payload),
    fill: async (count, state) => {
      const delay = state === "scheduled" ? { delaySeconds: 86_400 } : {};
      await client.enqueue({ ...target, ...delay }, makePayload(0));
      const id = `md5('${randomUUID()}' || n)::uuid::text`;
      await cloneRows(sql, {
        count,
        tables: {
          "dbos.workflow_status": {
            workflow_uuid: id,
            ...(state === "finished" ? { status: "'SUCCESS'" } : {}),
          },
          "dbos.workflow_input": { workflow_uuid: id },
        },
      });
    },
    pending: async () =>
      await sql.isTrue(
        "exists (select from dbos.workflow_status where status = 'ENQUEUED') or exists (select from dbos.workflow_status where status = 'PENDING')",
      ),
    // Its trees are workflows that start others and wait for their results, each in a run of its own.
    enqueueFlow: async (shape) =>
      void (await client.enqueue({ ...target, workflowName: "tree" }, {
        ...makePayload(0),
        shape,
      } as Payload)),
    workFlows: async (onJob) => {
      const leaf = DBOS.registerWorkflow(onJob, { name: "leaf" }) as Run;
      const startAll = async (count: number, run: Run, payload: Payload): Promise<void> => {
        const handles: { getResult(): Promise<unknown> }[] = [];
        const { queueName } = target;
        for (let n = 0; n < count; n++) handles.push(await DBOS.startWorkflow(run, { queueName })(payload));
        for (const handle of handles) await handle.getResult();
      };
      const group = DBOS.registerWorkflow(
        async (payload) => {
          await startAll((payload as TreePayload).shape.leaves, leaf, payload);
          await onJob(payload);
        },
        { name: "group" },
      ) as Run;
      const tree: Run = async (payload) => {
        const { groups, leaves } = (payload as TreePayload).shape;
        await startAll(groups === 0 ? leaves : groups, groups === 0 ? leaf : group, payload);
        await onJob(payload);
      };
      DBOS.registerWorkflow(tree, { name: "tree" });
      // One function cannot have two names.
      await launch(async (payload) => await onJob(payload));
    },
    workSteps: async (steps, onJob) => {
      await launch(async (payload) => {
        await onJob(payload);
        for (let n = 0; n < steps; n++) await DBOS.runStep(() => Promise.resolve(n), { name: `step ${n}` });
      });
    },
    work: async (onJob) => await launch(onJob),
    close: async () => {
      if (launched) await DBOS.shutdown();
      await client.destroy();
      await Promise.all([sql.end(), pool.end()]);
    },
  };
}
