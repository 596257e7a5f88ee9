import { logLevels, type Logger, type LogLevel } from "./logger.ts";

/**
 * Wraps a logger so that it cannot throw. The loops that renew leases and record outcomes log lines. A logger that throws, for
 * example on an error whose getters throw, must not end such a loop.
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
        // Log the message without its fields.
        log(logger, level, { fieldsLost: true }, message);
      } catch {
        // The logger fails for plain text, too; there is nowhere left to report.
      }
    }
  };
}

/** A logger that returns a promise, against its type, must not cause an unhandled rejection. */
function log(logger: Logger, level: LogLevel, fields: object, message: string): void {
  const returned: unknown = logger[level](fields, message);
  if (typeof (returned as { then?: unknown } | null | undefined)?.then === "function")
    Promise.resolve(returned).catch(() => undefined);
}
