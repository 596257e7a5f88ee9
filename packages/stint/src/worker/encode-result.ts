import type { JobDefinition } from "../define.ts";
import { encodeJson } from "../model/json.ts";
import { isOutcome } from "../model/outcome.ts";
import { validate } from "../model/standard-schema.ts";
import type { Logger } from "../runtime/logger.ts";

export type ResultDeps = {
  readonly maxResultBytes: number;
  readonly logger: Logger;
  /** Kinds without a result schema that have returned a value that cannot be stored. */
  readonly unstorableKinds: Set<string>;
};

/**
 * What a handler returned, as JSON text; null for nothing and for an outcome. A value that a result schema refuses is thrown, after `onRefused`
 * was called with the reason.
 */
export async function encodeResult(
  value: unknown,
  { kind, result }: Pick<JobDefinition, "kind" | "result">,
  deps: ResultDeps,
  onRefused: (error: unknown) => void,
): Promise<string | null> {
  if (isOutcome(value)) return null;
  const options = { kind, root: "result", maxBytes: deps.maxResultBytes } as const;
  try {
    const checked = result === undefined ? value : await validate(result, value, options);
    return checked === undefined ? null : encodeJson(checked, options);
  } catch (error) {
    if (result !== undefined) {
      onRefused(error);
      throw error;
    }
    // The work is done, and no result was declared. A failure would only repeat the work.
    warnUnstorable(kind, error, deps);
    return null;
  }
}

/** Once for each kind. */
function warnUnstorable(kind: string, refusal: unknown, { unstorableKinds, logger }: ResultDeps): void {
  if (unstorableKinds.has(kind)) return;
  unstorableKinds.add(kind);
  logger.warn(
    { kind, err: refusal },
    `${kind} returns a value that cannot be stored, so its result is null; return JSON, or nothing`,
  );
}
