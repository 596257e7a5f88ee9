import { onTestFinished } from "vitest";
import type { Fresh } from "./fresh.ts";

/** A table of an application, outside Stint's schema: that stays like a new one, and is used again. Dropped when the test ends. */
export async function noteTable(fresh: Fresh, columns: string): Promise<string> {
  const name = `public."note_${fresh.schema}"`;
  await fresh.sql(`create table ${name} (${columns})`);
  onTestFinished(async () => void (await fresh.sql(`drop table ${name}`)));
  return name;
}
