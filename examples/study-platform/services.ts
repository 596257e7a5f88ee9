/** Simulated providers: they are slow, fail now and then, and limit calls. */
import { setTimeout as sleep } from "node:timers/promises";

/** The error of an HTTP client. It is independent of jobs; handlers.ts maps it to an outcome. */
export class ProviderError extends Error {
  override readonly name = "ProviderError";
  constructor(
    readonly status: number,
    message: string,
    readonly retryAfterMs?: number,
  ) {
    super(`${status} ${message}`);
  }
}

/** The embedding provider allows this many calls at a time, whatever the speed of this machine. */
const embeddingCalls = 5;
let embedding = 0;

export async function embed(text: string, signal: AbortSignal): Promise<number[]> {
  if (embedding >= embeddingCalls) {
    await wait(5, 20, signal);
    throw new ProviderError(429, "Too Many Requests", 1_000);
  }
  embedding += 1;
  try {
    await wait(80, 280, signal);
  } finally {
    embedding -= 1;
  }
  return Array.from({ length: 8 }, (_, index) => Math.sin(text.length * (index + 1)));
}

export async function writeGuide(chapter: string, signal: AbortSignal): Promise<string> {
  // The catalogue ends at chapter 40; some readers request later chapters.
  const number = Number(/\d+$/.exec(chapter)?.[0]);
  await wait(100, 200, signal);
  if (number > 40) throw new ProviderError(404, `no such chapter: ${chapter}`);
  if (Math.random() < 0.15) throw new ProviderError(503, "model overloaded");
  await wait(400, 1_300, signal);
  return `What to remember of ${chapter}.`;
}

export async function recognize(file: string, signal: AbortSignal): Promise<string> {
  await wait(150, 300, signal);
  if (file.startsWith("blank-")) throw new ProviderError(422, `nothing to read on ${file}`);
  if (Math.random() < 0.1) throw new ProviderError(504, "recognizer timed out");
  // Much longer than other pages: the dashboard lists the job under Slow while it runs.
  if (file.startsWith("map-")) await wait(7_000, 9_000, signal);
  await wait(150, 500, signal);
  return `The words on ${file}.`;
}

export async function push(_reader: string, _text: string, signal: AbortSignal): Promise<void> {
  await wait(20, 90, signal);
  if (Math.random() < 0.03) throw new ProviderError(502, "push gateway unreachable");
}

/** One call of an agent to its model. */
export async function think(signal: AbortSignal): Promise<void> {
  await wait(400, 800, signal);
}

async function wait(fromMs: number, toMs: number, signal: AbortSignal): Promise<void> {
  await sleep(fromMs + Math.random() * (toMs - fromMs), undefined, { signal });
}
