import type { TransactionClient } from "./client.ts";
import { has, notTransaction, read } from "./shape.ts";

type Prisma = { $queryRawUnsafe(text: string, ...values: unknown[]): PromiseLike<unknown> };

/** The `tx` of Prisma's `prisma.$transaction(async (tx) => …)`. */
export function prisma(tx: unknown): TransactionClient | undefined {
  if (!has(tx, "$queryRawUnsafe")) return undefined;
  if (has(tx, "$connect") || has(tx, "$disconnect"))
    throw notTransaction("the Prisma client", "the tx of prisma.$transaction(async (tx) => …)");
  return {
    identity: tx as object,
    isEnded: (error) => read(error, "code") === "P2028",
    query: (text, values) => (tx as Prisma).$queryRawUnsafe(text, ...values),
  };
}
