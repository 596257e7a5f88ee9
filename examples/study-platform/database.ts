/** The database: an embedded Postgres or yours, with Stint's schema and the platform's tables. */
import { Pool } from "pg";
import { migrate, startEmbedded } from "stint/dev";

/** Stint's schema. Not the default `stint`, so that the demo never touches a real installation. */
export const stintSchema = "stint_demo";

export type Database = {
  readonly url: string;
  /** For the heading of the table. */
  readonly name: string;
  /** The platform's own connections. Stint has its own. */
  readonly pool: Pool;
  close(): Promise<void>;
};

/** DATABASE_URL if it is set, an embedded Postgres if not. */
export async function openDatabase(print: (line: string) => void): Promise<Database> {
  const server = await openServer(process.env["DATABASE_URL"], print);
  try {
    await migrate({ connection: server.url, schema: stintSchema });
    const pool = new Pool({ connectionString: server.url, max: 4, application_name: "study-platform" });
    // The pool replaces a broken idle connection. Without a listener, its error would end the process.
    pool.on("error", () => undefined);
    await pool.query(tables);
    print(`Schemas: ${stintSchema} (Stint), study_demo (the platform's own tables)`);

    const close = async (): Promise<void> => {
      await pool.end();
      await server.close();
      if (server.keeps)
        print(`Kept in your database: schemas ${stintSchema} and study_demo. Drop them when you like.`);
    };
    return { url: server.url, name: server.name, pool, close };
  } catch (error) {
    await server.close();
    throw error;
  }
}

type Server = { url: string; name: string; keeps: boolean; close(): Promise<void> };

async function openServer(given: string | undefined, print: (line: string) => void): Promise<Server> {
  if (given !== undefined && given !== "") {
    print("Using the Postgres of DATABASE_URL");
    return { url: given, name: "your Postgres", keeps: true, close: async () => undefined };
  }
  print("Starting an embedded Postgres …");
  const server = await startEmbedded({ onProgress: (line) => print(`  ${line}`) });
  print(
    `Postgres (pid ${server.pid}) listens on port ${server.port}; data in ${server.dataDir}, removed at the end`,
  );
  // The URL contains a password, but it was generated for this run and is removed with the server.
  print(`For the command line: export DATABASE_URL=${server.url}`);
  return { url: server.url, name: "embedded Postgres", keeps: false, close: async () => server.stop() };
}

const tables = `
  create schema if not exists study_demo;

  create table if not exists study_demo.note (
    id     bigint generated always as identity primary key,
    reader text not null,
    text   text not null,
    vector real[]
  );
  create table if not exists study_demo.study_guide (
    id      bigint generated always as identity primary key,
    chapter text not null,
    body    text
  );
  create table if not exists study_demo.scan (
    id   bigint generated always as identity primary key,
    file text not null,
    note bigint references study_demo.note
  );
  -- One row for each job the platform enqueued, written in the same transaction. See receipts.ts.
  create table if not exists study_demo.receipt (
    job   uuid primary key,
    queue text not null
  )`;
