import { existsSync } from "node:fs";
import { isAbsolute } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { InvalidOptionError } from "../../errors.ts";
import { toBytes, type ByteSize } from "../../model/byte-size.ts";
import { describe } from "../../model/describe.ts";
import { refuseUnknownKeys, requireOneOf } from "../../model/options.ts";

/** Run the handler in a thread or in a process of its own, with at most so much memory. */
export type Isolate =
  | "thread"
  | "process"
  | {
      in: "thread" | "process";
      /**
       * What the handler may use beside its loaded code. Default: what Node allows. A thread counts its JavaScript heap only, and one large allocation
       * beyond the limit ends the whole worker: use a process for handlers that may run out of memory.
       */
      memory?: ByteSize;
    };

/** Checked `Isolate`, with the file of the handler. */
export type ResolvedIsolate = {
  readonly in: "thread" | "process";
  readonly memoryBytes: number | undefined;
  /** The file: URL of the module whose default export is the handler. */
  readonly file: string;
};

const mebibyte = 1_048_576;
/** Less is not enough for Node itself. */
const memoryLimits = { min: 32 * mebibyte, max: 1_048_576 * mebibyte };

export function resolveIsolate(what: string, isolate: unknown, file: unknown): ResolvedIsolate {
  if (isolate === undefined)
    throw new InvalidOptionError(
      `${what}.isolate`,
      'is needed with the file of a handler: "thread", "process", or { in: "process", memory: "512mb" }',
    );
  const given = (typeof isolate === "string" ? { in: isolate } : isolate) as {
    in: unknown;
    memory?: ByteSize;
  };
  if (typeof given !== "object" || given === null)
    throw new InvalidOptionError(
      `${what}.isolate`,
      `must be "thread", "process", or { in: "process", memory: "512mb" }, got ${describe(isolate)}`,
    );
  refuseUnknownKeys(`${what}.isolate`, given, ["in", "memory"]);
  return Object.freeze({
    in: requireOneOf(typeof isolate === "string" ? `${what}.isolate` : `${what}.isolate.in`, given.in, [
      "thread",
      "process",
    ]),
    memoryBytes:
      given.memory === undefined ? undefined : toBytes(given.memory, `${what}.isolate.memory`, memoryLimits),
    file: resolveFile(`${what}.file`, file),
  });
}

function resolveFile(option: string, file: unknown): string {
  const url = toFileUrl(file);
  if (url === undefined)
    throw new InvalidOptionError(
      option,
      `must be the file of the handler, as in new URL("./render.js", import.meta.url), got ${describe(file instanceof URL ? file.href : file)}`,
    );
  if (!existsSync(url))
    throw new InvalidOptionError(
      option,
      `${fileURLToPath(url)} does not exist. Bundlers do not follow new URL(…): build the handler as an entry point of its own, beside the bundle`,
    );
  return url.href;
}

function toFileUrl(file: unknown): URL | undefined {
  if (file instanceof URL) return file.protocol === "file:" ? file : undefined;
  if (typeof file !== "string") return undefined;
  if (isAbsolute(file)) return pathToFileURL(file);
  return file.startsWith("file://") && URL.canParse(file) ? new URL(file) : undefined;
}
