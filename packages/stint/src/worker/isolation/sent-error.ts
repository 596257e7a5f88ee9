import { PermanentError, RateLimitedError } from "../../errors.ts";
import { recordFailure, type Failure } from "../../model/failure.ts";
import { read } from "../../model/safe-read.ts";
import { isSuspended } from "../suspension.ts";
import type { SentError } from "./messages.ts";

/** Describe any thrown value for the other side. Never throws. */
export function toSent(thrown: unknown, ref?: number): SentError {
  const failure = recordFailure(thrown);
  const type = typeOf(thrown);
  const retryAfter = type === "rate-limited" ? read(thrown, "retryAfter") : undefined;
  return {
    failure,
    type,
    ...(isRetryAfter(retryAfter) ? { retryAfter } : {}),
    ...(ref === undefined ? {} : { ref }),
  };
}

/** By its code and not by its class: the file of the handler may have its own copy of Stint. */
function typeOf(thrown: unknown): SentError["type"] {
  if (isSuspended(thrown)) return "suspended";
  const code = read(thrown, "code");
  if (code === "PERMANENT") return "permanent";
  return code === "RATE_LIMITED" ? "rate-limited" : "other";
}

function isRetryAfter(value: unknown): value is string | number | Date {
  return typeof value === "string" || typeof value === "number" || value instanceof Date;
}

/** The error again, as far as it can be. Never throws, whatever the other side has sent. */
export function fromSent(sent: unknown): Error {
  const type = read(sent, "type");
  const failure = toFailure(read(sent, "failure"));
  const error = errorOf(type, failure.message, read(sent, "retryAfter"));
  describeAs(error, failure);
  if (type === "suspended") Object.defineProperty(error, Symbol.for("stint.suspended"), { value: true });
  return error;
}

function errorOf(type: unknown, message: string, retryAfter: unknown): Error {
  if (type === "permanent") return new PermanentError(message);
  if (type === "rate-limited" && isRetryAfter(retryAfter))
    return new RateLimitedError({ retryAfter, message });
  return new Error(message);
}

function describeAs(error: Error, { class: name, stack, code, causes = [] }: Failure): void {
  const define = (key: string, value: unknown): void =>
    void Object.defineProperty(error, key, { value, configurable: true, writable: true, enumerable: false });
  define("name", name);
  if (stack !== undefined) define("stack", stack);
  if (code !== undefined) define("code", code);
  const [cause, ...others] = causes;
  if (cause === undefined) return;
  const inner = new Error(cause.message);
  describeAs(inner, { ...cause, causes: others });
  define("cause", inner);
}

/** What is sent may have been made up by any code of the other side. */
function toFailure(value: unknown): Failure {
  const text = (key: string): string | undefined => {
    const found = read(value, key);
    return typeof found === "string" ? found : undefined;
  };
  const causes = read(value, "causes");
  const stack = text("stack");
  const code = text("code");
  return {
    class: text("class") ?? "Error",
    message: text("message") ?? "The error could not be read.",
    ...(stack === undefined ? {} : { stack }),
    ...(code === undefined ? {} : { code }),
    ...(Array.isArray(causes)
      ? {
          causes: causes.slice(0, 8).map((cause: unknown) => ({
            class: String(read(cause, "class")),
            message: String(read(cause, "message")),
          })),
        }
      : {}),
  };
}
