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
