/** The logger interface. A pino logger satisfies it unchanged. */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  /** A logger that adds these fields to every line. */
  child(fields: object): Logger;
  /** Whether lines of this level are written. Without this method all levels are assumed to be. */
  isLevelEnabled?(level: string): boolean;
}

export const logLevels = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof logLevels)[number];

export type JsonLoggerOptions = {
  /** Lines below this level are dropped. Default "info". */
  level?: LogLevel;
  /** Receives one complete line with its newline. Default: standard error. */
  write?: (line: string) => void;
};

const longestText = 16_384;

/** One JSON object per line. Never throws: a log line must not be able to fail a job. */
export function jsonLogger({ level = "info", write = toStderr }: JsonLoggerOptions = {}): Logger {
  const least = logLevels.indexOf(level);

  // Fields are stored unread. `formatLine` reads them and catches getters that throw.
  const withFields = (bound: readonly object[]): Logger => {
    const at = (lineLevel: LogLevel) =>
      logLevels.indexOf(lineLevel) < least
        ? () => {}
        : (fields: object, message: string) => {
            try {
              write(formatLine(lineLevel, message, [...bound, fields]));
            } catch {
              // The sink itself failed; there is nowhere left to report.
            }
          };
    return {
      debug: at("debug"),
      info: at("info"),
      warn: at("warn"),
      error: at("error"),
      child: (fields) => withFields([...bound, fields]),
      isLevelEnabled: (lineLevel) => logLevels.indexOf(lineLevel as LogLevel) >= least,
    };
  };
  return withFields([]);
}

/** Drops everything. */
export const silentLogger: Logger = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
  child: () => silentLogger,
  isLevelEnabled: () => false,
};

function formatLine(level: LogLevel, message: string, fields: readonly object[]): string {
  const head = { time: new Date().toISOString(), level, message };
  let line: string;
  try {
    // The head is spread first for its position in the line, and again last so that no field can override it.
    line = JSON.stringify(Object.assign({}, head, ...fields, head), replacer);
  } catch {
    // A cycle or a getter that throws: write the message without its fields.
    line = JSON.stringify({ ...head, fieldsLost: true }, replacer);
  }
  // JSON does not escape DEL and the C1 controls, which some terminals interpret; \u2028 is a line break to some.
  return `${line.replaceAll(/[\u007f-\u009f\u2028\u2029]/g, escapeUnit)}\n`;
}

function replacer(_key: string, value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  if (typeof value === "string" && value.length > longestText) return `${value.slice(0, longestText)}…`;
  return value instanceof Error ? errorFields(value, 0) : value;
}

/** Follows causes for a few steps only: a cyclic chain would never end. */
function errorFields(error: Error, depth: number): object {
  const { name, message, stack, cause } = error;
  const code: unknown = "code" in error ? error.code : undefined;
  const inner = cause instanceof Error ? (depth < 4 ? errorFields(cause, depth + 1) : undefined) : cause;
  return { class: name, code, message, stack, cause: inner };
}

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

let guarded = false;

function toStderr(line: string): void {
  if (!guarded) {
    guarded = true;
    // When the reader of a pipe exits, the stream emits EPIPE; without a listener that ends the process.
    process.stderr.on("error", () => {});
  }
  process.stderr.write(line);
}
