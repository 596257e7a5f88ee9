import { resolve } from "node:path";
import type { TestProject } from "vitest/node";
import { startEmbedded } from "#stint/db/embedded/embedded.js";

declare module "vitest" {
  export interface ProvidedContext {
    databaseUrl: string;
  }
}

/**
 * One Postgres for the whole run: the one in STINT_TEST_DATABASE_URL, else an embedded one; of another version if
 * STINT_TEST_POSTGRES names a folder with its package.
 */
export async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const given = process.env["STINT_TEST_DATABASE_URL"];
  if (given !== undefined && given !== "") {
    project.provide("databaseUrl", given);
    return undefined;
  }

  const packageDir = process.env["STINT_TEST_POSTGRES"];
  const server = await startEmbedded({
    settings: testSettings,
    ...(packageDir === undefined ? {} : { packageDir: resolve(packageDir) }),
  });
  project.provide("databaseUrl", server.url);
  return async () => server.stop("immediate");
}

const testSettings = {
  // The data is thrown away; waiting for the disk would only slow the suite.
  fsync: "off",
  synchronous_commit: "off",
  full_page_writes: "off",
  max_connections: "300",
  shared_buffers: "256MB",
  // Errors that tests provoke on purpose would fill the log.
  log_min_messages: "fatal",
  log_checkpoints: "off",
};
