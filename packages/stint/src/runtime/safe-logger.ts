import { logLevels, type Logger, type LogLevel } from "./logger.ts";

/**
 * The same logger, unable to do harm. Lines are logged from the loops that keep leases and record outcomes: a logger that throws,
 * for instance because it reads an error whose getters throw, must not end one.
 */
export function safeLogger(logger: Logger): Logger {
  const lines = Object.fromEntries(logLevels.map((level) => [level, lineOf(logger, level)])) as Pick<
    Logger,
    LogLevel
  >;
  const safe: Logger = {
    ...lines,
    child: (fields) => {
      try {
        return safeLogger(logger.child(fields));
      } catch {
        return safe;
      }
    },
    isLevelEnabled: (level) => {
      try {
        return logger.isLevelEnabled?.(level) ?? true;
      } catch {
        return true;
      }
    },
  };
  return safe;
}

function lineOf(logger: Logger, level: LogLevel): Logger[LogLevel] {
  return (fields, message) => {
    try {
      log(logger, level, fields, message);
    } catch {
      try {
        // The message is worth more than its fields.
        log(logger, level, { fieldsLost: true }, message);
      } catch {
        // Nothing is left to report to.
      }
    }
  };
}

/** A logger that is asynchronous against its type must not reject unheard. */
function log(logger: Logger, level: LogLevel, fields: object, message: string): void {
  const returned: unknown = logger[level](fields, message);
  if (typeof (returned as { then?: unknown } | null | undefined)?.then === "function")
    Promise.resolve(returned).catch(() => undefined);
}
