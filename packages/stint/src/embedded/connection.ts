import { Client, type DatabaseError } from "pg";
import { owner, type Cluster } from "./cluster.ts";

export function urlOf(cluster: Cluster, port: number, database = owner): string {
  return `postgres://${owner}:${cluster.password}@127.0.0.1:${port}/${database}`;
}

/**
 * Connect once, and create the database if it does not exist.
 *
 * A login with the cluster's password also proves that this server runs on the cluster, and is not another one
 * on the same port.
 */
export async function ensureDatabase(cluster: Cluster, port: number): Promise<void> {
  try {
    await connectAnd(urlOf(cluster, port), putPublicFirst);
  } catch (error) {
    if ((error as DatabaseError).code !== noSuchDatabase) throw error;
    await connectAnd(urlOf(cluster, port, "postgres"), createDatabase);
    await connectAnd(urlOf(cluster, port), putPublicFirst);
  }
}

/**
 * The user has the name of Stint's schema, so the default search_path ("$user", public) would put the tables of applications into it.
 * "$user" stays after public: tables that an older release created there are still found.
 */
async function putPublicFirst(client: Client): Promise<void> {
  const { rows } = await client.query<{ search_path: string }>("show search_path");
  if (rows[0]?.search_path !== '"$user", public') return;
  try {
    await client.query(`alter database ${owner} set search_path = public, "$user"`);
  } catch (error) {
    // A concurrent start on the same cluster sets the same value: it adds the row first, or updates the same row.
    const { code, message } = error as DatabaseError;
    if (code !== uniqueViolation && !/tuple concurrently updated/.test(message)) throw error;
  }
}

const noSuchDatabase = "3D000";
const duplicateDatabase = "42P04";
const uniqueViolation = "23505";

async function createDatabase(client: Client): Promise<void> {
  try {
    await client.query(`create database ${owner}`);
  } catch (error) {
    // A concurrent start on the same cluster.
    const { code } = error as DatabaseError;
    if (code !== duplicateDatabase && code !== uniqueViolation) throw error;
  }
}

async function connectAnd(url: string, action: (client: Client) => Promise<void>): Promise<void> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  // Without an error listener, the end of the server would end this process.
  client.on("error", () => undefined);
  try {
    await client.connect();
    await action(client);
  } finally {
    await client.end();
  }
}
