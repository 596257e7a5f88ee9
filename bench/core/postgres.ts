import { Client } from "pg";
import { startEmbedded, type Embedded } from "stint/dev";

/** Settings of a small production server, without any that give up durability. */
const settings = {
  fsync: "on",
  synchronous_commit: "on",
  full_page_writes: "on",
  shared_buffers: "1GB",
  max_wal_size: "4GB",
  // Keeps the segments of `recycleLog`.
  min_wal_size: "4GB",
  max_connections: "200",
  jit: "off",
  // Scenarios that count statements turn this on for their database; other scenarios do not pay for it.
  "pg_stat_statements.track": "none",
};

export type Postgres = {
  readonly pid: number;
  /** The version of the server, such as "18.4". */
  readonly version: string;
  urlOf(database: string): string;
  /** Without a name: a connection to a database that belongs to no system. */
  connect(database?: string): Promise<Client>;
  /**
   * Make segments of the write-ahead log for the measurements to write into. A server that has run for a while has them from its last checkpoints. A new
   * one first fills each segment with zeros and syncs it: a fifth of the time of a drain, and the more log a system writes, the longer.
   */
  recycleLog(): Promise<void>;
  stop(): Promise<void>;
};

/** More than is written between two checkpoints. 3 GB. */
const segments = 192;

/** Start a server with an empty database for each name. The server stops with this process, even if the process is killed. */
export async function startPostgres(databases: readonly string[]): Promise<Postgres> {
  const server = await startWithStatements();
  const urlOf = (database: string): string => {
    const url = new URL(server.url);
    url.pathname = `/${database}`;
    return url.href;
  };
  const connect = async (database?: string): Promise<Client> => {
    const client = new Client({ connectionString: database === undefined ? server.url : urlOf(database) });
    // Without a listener, an ended session or a stopped server would crash this process.
    client.on("error", () => undefined);
    await client.connect();
    return client;
  };
  const admin = await connect();
  try {
    for (const database of databases) await admin.query(`create database ${database}`);
    const { rows } = await admin.query<{ version: string }>(
      "select split_part(current_setting('server_version'), ' ', 1) as version",
    );
    return {
      pid: server.pid,
      version: rows[0]?.version ?? "unknown",
      urlOf,
      connect,
      recycleLog: async () => await recycleLog(connect),
      stop: async () => await server.stop("fast"),
    };
  } finally {
    await admin.end();
  }
}

async function recycleLog(connect: Postgres["connect"]): Promise<void> {
  const client = await connect();
  try {
    // A switch without a message before it does nothing.
    await client.query(`
      do $$ begin
        for n in 1..${segments} loop
          perform pg_logical_emit_message(false, 'bench', '');
          perform pg_switch_wal();
        end loop;
      end $$`);
    await client.query("checkpoint");
  } finally {
    await client.end();
  }
}

/** Adds pg_stat_statements if the Postgres binaries include it. */
async function startWithStatements(): Promise<Embedded> {
  try {
    return await startEmbedded({ settings: { ...settings, shared_preload_libraries: "pg_stat_statements" } });
  } catch {
    return await startEmbedded({ settings });
  }
}
