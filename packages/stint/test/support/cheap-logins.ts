import { readFile, writeFile } from "node:fs/promises";
import type { Client } from "pg";

/** Fewer hash iterations: with the default 4,096, a login costs more than most statements. */
export async function hashQuickly(client: Client, url: string): Promise<void> {
  const { rows } = await client.query<{ version: number }>(
    `select current_setting('server_version_num')::int as version`,
  );
  if ((rows[0]?.version ?? 0) < 160_000) return;
  await client.query(`set scram_iterations = 1`);
  await client.query(`alter role current_user password '${decodeURIComponent(new URL(url).password)}'`);
}

/**
 * Clients send their password itself instead of proving it by hashes, which takes half of the CPU of a login in this process. Servers of a
 * single test (own-server.ts) still ask for the proof.
 */
export async function acceptPlainPasswords(client: Client): Promise<void> {
  const { rows } = await client.query<{ hba_file: string }>("show hba_file");
  const file = rows[0]?.hba_file ?? "";
  await writeFile(file, (await readFile(file, "utf8")).replaceAll("scram-sha-256", "password"));
  await client.query("select pg_reload_conf()");
}
