import { createInterface } from "node:readline/promises";
import { UsageError } from "./report-error.ts";

/**
 * Ask a person. Where there is none, nothing is asked and nothing is done: a script that would wait for an answer
 * for ever is worse than one that fails.
 */
export async function confirm(
  question: string,
  { yes, json }: { yes: boolean; json: boolean },
): Promise<boolean> {
  if (yes) return true;
  if (json || !process.stdin.isTTY || !process.stderr.isTTY) {
    throw new UsageError(
      `${question} There is no terminal to ask on: add --yes if you are sure. Nothing was changed.`,
    );
  }
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(es)?$/i.test((await asking.question(`${question} [y/N] `)).trim());
  } finally {
    asking.close();
  }
}
