import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** A new temp folder, open to all because Postgres is another user when the suite runs as root. */
export async function openFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "stint-test-"));
  await chmod(folder, 0o755);
  return folder;
}

/** The same, removed when the test is over. */
export async function testFolder(): Promise<string> {
  const folder = await openFolder();
  onTestFinished(async () => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}
