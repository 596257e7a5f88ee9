import { registerKinds } from "#stint/sql/kinds.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";

/** A fresh installation where kind "work" is known, and how SQL callers reach it. */
export async function installed(): Promise<
  Fresh & { enqueue(options?: unknown, payload?: unknown, kind?: string | null): Promise<string> }
> {
  const fresh = await freshSchema();
  await registerKinds(fresh.db, [{ name: "work", queue: "main", priority: 7, maxCrashes: 2 }]);
  return {
    ...fresh,
    async enqueue(options = {}, payload = { a: 1 }, kind = "work") {
      const [row] = await fresh.sql<{ id: string }>(`select stint.enqueue($1, $2, $3) as id`, [
        kind,
        JSON.stringify(payload),
        JSON.stringify(options),
      ]);
      return row?.id ?? "";
    },
  };
}

/** The error of an attempt that should be refused. */
export const refusal = async (
  attempt: Promise<unknown>,
): Promise<{ code?: string; message: string; hint?: string }> =>
  await attempt.then(
    () => ({ message: "it was accepted" }),
    (error: { code?: string; message: string; hint?: string }) => error,
  );
