import { StintError } from "../errors.ts";
import { paint, safe, say, toJson, type Output } from "./output.ts";

/** What the process ends with. Written in every --help, and in docs/guides/cli.md. */
export const exitCodes = { ok: 0, failed: 1, usage: 2 } as const;

/** The command line cannot be understood. What is wrong with an option's value is an InvalidOptionError. */
export class UsageError extends Error {
  readonly code = "USAGE";
}

/** Errors that say the request itself is wrong, so that sending it again cannot help. */
const usageCodes = new Set([
  "USAGE",
  "INVALID_OPTION",
  "INVALID_PAYLOAD",
  "UNKNOWN_KIND",
  "TRANSACTION_REQUIRED",
]);

export type ReportOptions = { out: Output; verbose: boolean; hints?: readonly string[] };

/** Report an error on standard error. Returns the exit code. */
export function reportError(error: unknown, { out, verbose, hints = [] }: ReportOptions): number {
  const code = codeOf(error);
  const message = messageOf(error);
  if (out.json) {
    const report = { code: code ?? null, message: safe(message), hints: hints.map(safe) };
    process.stderr.write(`${toJson({ error: report })}\n`);
  } else {
    const head = paint(["red", "bold"], "Error");
    out.note(say`${head}: ${message}${code === undefined ? "" : ` [${code}]`}`);
    for (const hint of hints) out.note(say`${paint("dim", hint)}`);
  }
  if (verbose) for (const line of stackLines(error)) out.note(say`${paint("dim", line)}`);
  else if (!(error instanceof StintError) && code === undefined)
    out.note(say`Run it again with --verbose to see where.`);
  return code !== undefined && usageCodes.has(code) ? exitCodes.usage : exitCodes.failed;
}

function codeOf(error: unknown): string | undefined {
  const code: unknown = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : undefined;
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.message || codeOf(error) || error.name;
}

function stackLines(error: unknown): string[] {
  const lines: string[] = [];
  for (let step = error; step instanceof Error && lines.length < 200; step = step.cause) {
    if (lines.length > 0) lines.push("caused by");
    lines.push(...(step.stack ?? step.message).split("\n"));
  }
  return lines;
}
