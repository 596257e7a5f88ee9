import { Client, type DatabaseError } from "pg";
import { owner, type Cluster } from "./cluster.ts";

export function urlOf(cluster: Cluster, port: number, database = owner): string {
  return `postgres://${owner}:${cluster.password}@127.0.0.1:${port}/${database}`;
}

/**
 * Connect once, and make the database if it is not there yet.
 *
 * That the server knows our password also shows that it is the server of this cluster and not another that
 * happens to have the port.
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
 * "$user" stays behind public: tables that an older release let in there are still found.
 */
async function putPublicFirst(client: Client): Promise<void> {
  const { rows } = await client.query<{ search_path: string }>("show search_path");
  if (rows[0]?.search_path !== '"$user", public') return;
  try {
    await client.query(`alter database ${owner} set search_path = public, "$user"`);
  } catch (error) {
    // Another start on the same cluster, at the same moment, which sets the same.
    if (!/tuple concurrently updated/.test((error as Error).message)) throw error;
  }
}

const noSuchDatabase = "3D000";
const duplicateDatabase = "42P04";
const uniqueViolation = "23505";

async function createDatabase(client: Client): Promise<void> {
  try {
    await client.query(`create database ${owner}`);
  } catch (error) {
    // Another start on the same cluster, at the same moment.
    const { code } = error as DatabaseError;
    if (code !== duplicateDatabase && code !== uniqueViolation) throw error;
  }
}

async function connectAnd(url: string, action: (client: Client) => Promise<void>): Promise<void> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  // Without a listener, a server that ends under us would take this process along.
  client.on("error", () => undefined);
  try {
    await client.connect();
    await action(client);
  } finally {
    await client.end();
  }
}
