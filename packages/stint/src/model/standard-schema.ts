import { InvalidPayloadError } from "../errors.ts";
import { clip } from "../runtime/text.ts";
import { describe } from "./describe.ts";
import { formatStep } from "./json.ts";
import { isA, read } from "./safe-read.ts";

/**
 * A schema of any library that follows Standard Schema (version 1): Zod, Valibot, ArkType and others.
 * Only the parts that Stint reads are declared.
 */
export interface StandardSchema<In = unknown, Out = In> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Out> | Promise<SchemaResult<Out>>;
    /** For the compiler only; absent at run time. */
    readonly types?: { readonly input: In; readonly output: Out } | undefined;
  };
}

export type SchemaResult<Out> =
  | { readonly value: Out; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** The input type of the schema. */
export type InferIn<S extends StandardSchema> = NonNullable<S["~standard"]["types"]>["input"];

/** The output type of the schema. */
export type InferOut<S extends StandardSchema> = NonNullable<S["~standard"]["types"]>["output"];

type Subject = { kind: string; root: string };

/**
 * Check a value with its schema and return the schema's output.
 * Synchronous for a synchronous schema; only an asynchronous one returns a promise.
 *
 * @throws {InvalidPayloadError} The value does not fit, or the schema itself threw.
 */
export function validate<Out>(
  schema: StandardSchema<unknown, Out>,
  value: unknown,
  subject: Subject,
): Promise<Out> | Out {
  try {
    const result = schema["~standard"].validate(value);
    if (!isThenable(result)) return unwrap(result, subject);
    // Wrapped: the promise's own `then` may throw, or return any value.
    return Promise.resolve(result).then(
      (settled) => unwrap(settled, subject),
      (error: unknown) => {
        throw schemaThrew(subject, error);
      },
    );
  } catch (error) {
    throw isA(error, InvalidPayloadError) ? error : schemaThrew(subject, error);
  }
}

/** Not `instanceof Promise`: a schema library may return its own promise type, or one of another realm. */
export function isThenable<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === "function";
}

function unwrap<Out>(result: SchemaResult<Out>, subject: Subject): Out {
  const returned: unknown = result;
  if (typeof returned !== "object" || returned === null) {
    throw new InvalidPayloadError(
      subject.kind,
      subject.root,
      `could not be checked: its schema returned ${describe(returned)}; use a schema that follows Standard Schema`,
    );
  }
  if (result.issues === undefined) return result.value;

  const [first, ...rest] = result.issues;
  const shown = rest.slice(0, 2).map((issue) => `${pathOf(issue, subject)}: ${issue.message}`);
  if (rest.length > shown.length) shown.push(`and ${rest.length - shown.length} more`);
  const rule = ["does not fit its schema: " + (first?.message ?? "no reason given"), ...shown].join("; ");
  throw new InvalidPayloadError(
    subject.kind,
    first ? pathOf(first, subject) : subject.root,
    clip(rule, 1_000),
  );
}

function pathOf(issue: SchemaIssue, { root }: Subject): string {
  const steps = (issue.path ?? []).slice(0, 64).map((step) => (typeof step === "object" ? step.key : step));
  const text = steps.map((step) => formatStep(typeof step === "symbol" ? String(step) : step)).join("");
  return clip(root + text, 500);
}

function schemaThrew({ kind, root }: Subject, error: unknown): InvalidPayloadError {
  const message = read(error, "message");
  const reason = typeof message === "string" ? clip(message, 500) : describe(error);
  return new InvalidPayloadError(kind, root, `could not be checked: its schema threw: ${reason}`, {
    cause: error,
  });
}
