import { Client } from "pg";
import { startEmbedded, type Embedded } from "stint/dev";

/** What a small production server would have; nothing that gives up durability. */
const settings = {
  fsync: "on",
  synchronous_commit: "on",
  full_page_writes: "on",
  shared_buffers: "1GB",
  max_wal_size: "4GB",
  max_connections: "200",
  jit: "off",
  // A scenario that counts statements turns this on for its session; the others need not pay for it.
  "pg_stat_statements.track": "none",
};

export type Postgres = {
  readonly pid: number;
  /** The version of the server, such as "18.4". */
  readonly version: string;
  urlOf(database: string): string;
  /** Without a name: to a database that belongs to no system. */
  connect(database?: string): Promise<Client>;
  stop(): Promise<void>;
};

/** Start a server of our own with an empty database for each name. It ends with this process, however that ends. */
export async function startPostgres(databases: readonly string[]): Promise<Postgres> {
  const server = await startWithStatements();
  const urlOf = (database: string): string => {
    const url = new URL(server.url);
    url.pathname = `/${database}`;
    return url.href;
  };
  const connect = async (database?: string): Promise<Client> => {
    const client = new Client({ connectionString: database === undefined ? server.url : urlOf(database) });
    // A server that stops, or a database whose sessions are ended, is no reason to crash.
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
      stop: async () => await server.stop("fast"),
    };
  } finally {
    await admin.end();
  }
}

/** With pg_stat_statements where the binaries have it. */
async function startWithStatements(): Promise<Embedded> {
  try {
    return await startEmbedded({ settings: { ...settings, shared_preload_libraries: "pg_stat_statements" } });
  } catch {
    return await startEmbedded({ settings });
  }
}
