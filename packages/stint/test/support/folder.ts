import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** A new temp folder. It is readable by all, as Postgres runs as another user when the suite runs as root. */
export async function openFolder(parent = tmpdir()): Promise<string> {
  const folder = await mkdtemp(join(parent, "stint-test-"));
  await chmod(folder, 0o755);
  return folder;
}

/** A temp folder that is removed when the test ends. */
export async function testFolder(): Promise<string> {
  const folder = await openFolder();
  onTestFinished(async () => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}
