import { InvalidOptionError } from "../errors.ts";

// Without a zone the same words would mean another moment on another machine.
const moment = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})$/;

/** A date with time and zone, as the value of an option. */
export function toDate(text: string, option: string): Date {
  const date = new Date(text);
  if (moment.test(text) && !Number.isNaN(date.getTime())) return date;
  throw new InvalidOptionError(
    option,
    `must be a date with time and zone, as 2027-01-31T09:00:00Z, got ${JSON.stringify(text)}`,
  );
}

/** A whole number, as an argument or the value of an option. Its range is checked where it is used. */
export function toInteger(text: string, option: string, other = ""): number {
  if (/^-?\d{1,15}$/.test(text)) return Number(text);
  throw new InvalidOptionError(option, `must be an integer${other}, got ${JSON.stringify(text)}`);
}

/** A JSON argument; `-` reads it from standard input. */
export async function readJson(argument: string): Promise<unknown> {
  const text = argument === "-" ? await readAll(process.stdin) : argument;
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    const hint = "Quote it for the shell, as '{\"a\":1}', or pass - and give it on standard input";
    throw new InvalidOptionError("json", `is not JSON (${(error as Error).message}). ${hint}`, {
      cause: error,
    });
  }
}

async function readAll(stream: NodeJS.ReadableStream): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of stream) parts.push(Buffer.from(part));
  return Buffer.concat(parts).toString("utf8");
}
