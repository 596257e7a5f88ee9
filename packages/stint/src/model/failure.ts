import { clip } from "../runtime/text.ts";
import { className, describe } from "./describe.ts";
import { isArray, read } from "./safe-read.ts";

/** How an attempt failed, in a form that can always be stored as `jsonb`. */
export type Failure = {
  class: string;
  message: string;
  stack?: string;
  code?: string;
  /** The chain of `cause`, and the errors inside an AggregateError, nearest first. */
  causes?: { class: string; message: string }[];
  /** A text or list above was cut to its limit. */
  truncated?: true;
};

const limits = { class: 128, code: 128, message: 8_192, stack: 16_384, causeMessage: 2_048, causes: 8 };

/**
 * Describe a value that a handler threw. This never throws, for any value, and the result is always small,
 * well-formed and free of NUL.
 *
 * A failure that cannot be recorded would leave its job running until the lease ends, and then fail again in
 * the same way, forever. So nothing about the value is trusted: not its getters, its types, or its size.
 */
export function recordFailure(thrown: unknown): Failure {
  try {
    return record(thrown);
  } catch {
    return minimalFailure();
  }
}

/** The failure that is recorded if the description itself fails. */
export function minimalFailure(): Failure {
  return { class: "Error", message: "The failure could not be read." };
}

function record(thrown: unknown): Failure {
  const cut = new Cutter();
  const failure: Failure = {
    class: cut.text(classOf(thrown), limits.class),
    message: cut.text(messageOf(thrown), limits.message),
  };

  const stack = stackOf(thrown);
  if (stack !== undefined) failure.stack = cut.text(stack, limits.stack);

  const code = read(thrown, "code");
  if (typeof code === "string" || typeof code === "number") failure.code = cut.text(`${code}`, limits.code);

  const { found, more } = causesOf(thrown);
  if (found.length > 0) {
    failure.causes = found.map((cause) => ({
      class: cut.text(classOf(cause), limits.class),
      message: cut.text(messageOf(cause), limits.causeMessage),
    }));
  }

  if (cut.happened || more) failure.truncated = true;
  return failure;
}

/** Cuts texts to size and remembers whether it had to. */
class Cutter {
  happened = false;

  text(value: string, maxBytes: number): string {
    const short = clip(value, maxBytes);
    if (short.length < value.length) this.happened = true;
    return short;
  }
}

function classOf(thrown: unknown): string {
  if (thrown === null) return "null";
  if (typeof thrown !== "object") return typeof thrown;
  const name = read(thrown, "name");
  // A subclass without its own name inherits "Error"; its constructor has the class name.
  return typeof name === "string" && name !== "" && name !== "Error" ? name : className(thrown);
}

function messageOf(thrown: unknown): string {
  if (typeof thrown === "string") return thrown;
  const message = read(thrown, "message");
  if (typeof message === "string") return message;
  return message === undefined ? describe(thrown) : describe(message);
}

/** The stack. A message in its head that would push every frame past the limit is cut. */
function stackOf(thrown: unknown): string | undefined {
  const stack = read(thrown, "stack");
  if (typeof stack !== "string" || stack === "") return undefined;
  const message = read(thrown, "message");
  if (typeof message !== "string" || message.length <= limits.causeMessage) return stack;

  const frames = stack.indexOf("\n    at ", Math.min(message.length, stack.length));
  if (frames === -1) return stack;
  return `${clip(stack, limits.causeMessage)}…${stack.slice(frames, frames + limits.stack)}`;
}

/** Breadth first: the direct cause comes before the errors inside a deeper AggregateError. */
function causesOf(thrown: unknown): { found: unknown[]; more: boolean } {
  const seen = new Set<unknown>([thrown]);
  const found: unknown[] = [];
  const waiting: unknown[] = [thrown];
  for (let next = 0; next < waiting.length; next++) {
    for (const cause of directCauses(waiting[next])) {
      // A circular chain would otherwise fill the list with repetitions.
      if (seen.has(cause)) continue;
      if (found.length === limits.causes) return { found, more: true };
      seen.add(cause);
      found.push(cause);
      waiting.push(cause);
    }
  }
  return { found, more: false };
}

function directCauses(thrown: unknown): unknown[] {
  const causes: unknown[] = [];
  const cause = read(thrown, "cause");
  if (cause !== undefined && cause !== null) causes.push(cause);

  const errors = read(thrown, "errors");
  const length = isArray(errors) ? read(errors, "length") : 0;
  const count = typeof length === "number" ? Math.min(length, limits.causes + 1) : 0;
  for (let index = 0; index < count; index++) causes.push(read(errors, index));
  return causes;
}
