import type { JobDefinition } from "../define.ts";
import { InvalidOptionError, UnknownKindError } from "../errors.ts";
import { describe } from "../model/describe.ts";
import { closest } from "../model/names.ts";

/** The kinds that may be enqueued by name. */
export class Kinds {
  readonly #byName: Map<string, JobDefinition>;

  constructor(jobs: ReadonlyMap<string, JobDefinition>) {
    this.#byName = new Map(jobs);
  }

  add(definition: JobDefinition): void {
    this.#byName.set(definition.kind, definition);
  }

  /** The definition of this kind, if the client has it. */
  known(kind: string): JobDefinition | undefined {
    return this.#byName.get(kind);
  }

  /** @throws {UnknownKindError} This client has no kind of this name. */
  find(job: unknown): JobDefinition {
    if (typeof job !== "string") return requireDefinition(job, "enqueue(job)");
    const definition = this.#byName.get(job);
    if (definition === undefined) throw new UnknownKindError(job, closest(job, this.#byName.keys()));
    return definition;
  }
}

/** @throws {InvalidOptionError} This was not made by defineJob. */
export function requireDefinition(job: unknown, option: string): JobDefinition {
  const { kind, policy } = (job ?? {}) as Partial<JobDefinition>;
  if (typeof kind === "string" && typeof policy === "object") return job as JobDefinition;
  throw new InvalidOptionError(
    option,
    `must be a job made by defineJob, or the name of one, got ${describe(job)}` +
      (job === undefined ? ". Do the modules that define and use it import each other?" : ""),
  );
}
