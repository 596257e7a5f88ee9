import { createInterface } from "node:readline/promises";
import { UsageError } from "./report-error.ts";

type Prompt = {
  /** Do not ask. */
  yes: boolean;
  json: boolean;
};

/**
 * Ask a person. Where there is none, nothing is asked and nothing is done: a script that would wait for an answer
 * for ever is worse than one that fails.
 */
export async function confirm(question: string, asking: Prompt): Promise<boolean> {
  return asking.yes || /^y(es)?$/i.test(await answerTo(question, "[y/N]", asking));
}

/** The same for what cannot be undone with a keystroke: the word must be typed. */
export async function confirmByTyping(question: string, word: string, asking: Prompt): Promise<boolean> {
  return asking.yes || (await answerTo(question, `Type "${word}" to continue:`, asking)) === word;
}

async function answerTo(question: string, how: string, { json }: Prompt): Promise<string> {
  if (json || !process.stdin.isTTY || !process.stderr.isTTY) {
    throw new UsageError(
      `${question} There is no terminal to ask on: add --yes if you are sure. Nothing was changed.`,
    );
  }
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return (await asking.question(`${question} ${how} `)).trim();
  } finally {
    asking.close();
  }
}
