import type { Attributes, SpanKind, SpanOptions } from "@opentelemetry/api";
import { names } from "./semconv.ts";

/** Bounds on memory: error classes and queue names come from applications and can be any number. */
const mostErrors = 100;
const mostEntries = 1_000;
/** The conventions' value for errors beyond the bound. */
const otherError = "_OTHER";

/** The attributes that all operations of one type on one queue and kind share. They are made once. */
export class SpanAttributes {
  readonly queue: string | undefined;
  readonly kind: string | undefined;
  readonly name: string;
  readonly attributes: Readonly<Attributes>;
  /** To start a span with: the attributes that a sampler may decide by. */
  readonly options: Readonly<SpanOptions>;
  /** The other attributes, set only on recorded spans: starting a span copies each attribute even if the sampler drops it. */
  readonly others: Readonly<Attributes>;
  readonly #failed = new Map<string, Readonly<Attributes>>();
  /** Until this time, jobs with an unsampled enqueue are dropped without asking the sampler. */
  unsampledUntil = 0;

  constructor(operation: Operation, queue: string | undefined, kind: string | undefined) {
    this.queue = queue;
    this.kind = kind;
    this.name = queue === undefined ? operation.name : `${operation.name} ${queue}`;
    const deciding = Object.freeze({
      [names.operationType]: operation.type,
      ...(queue === undefined ? {} : { [names.destination]: queue }),
      ...(kind === undefined ? {} : { [names.kind]: kind }),
    });
    this.options = Object.freeze({ kind: operation.kind, attributes: deciding });
    this.others = Object.freeze({ ...operation.common, [names.operationName]: operation.name });
    this.attributes = Object.freeze({ ...this.others, ...deciding });
  }

  /** The same attributes with the class of an error. */
  failed(errorClass: string): Readonly<Attributes> {
    const known = this.#failed.get(errorClass);
    if (known !== undefined) return known;
    if (this.#failed.size >= mostErrors && errorClass !== otherError) return this.failed(otherError);
    const made = Object.freeze({ ...this.attributes, [names.errorType]: errorClass });
    this.#failed.set(errorClass, made);
    return made;
  }
}

export type Operation = {
  readonly name: string;
  readonly type: string;
  /** The kind of its spans. */
  readonly kind: SpanKind;
  /** Attributes of every operation of one client. */
  readonly common: Readonly<Attributes>;
};

/** The span attributes of one operation, by queue and kind. */
export class SpanAttributesCache {
  readonly #operation: Operation;
  #byQueue = new Map<string | undefined, Map<string | undefined, SpanAttributes>>();
  #count = 0;
  #last: SpanAttributes | undefined;

  constructor(operation: Operation) {
    this.#operation = operation;
  }

  of(queue: string | undefined, kind?: string): SpanAttributes {
    // Nearly always the same as last time.
    if (this.#last !== undefined && this.#last.queue === queue && this.#last.kind === kind) return this.#last;
    return (this.#last = this.#byQueue.get(queue)?.get(kind) ?? this.#make(queue, kind));
  }

  #make(queue: string | undefined, kind: string | undefined): SpanAttributes {
    if (this.#count >= mostEntries) {
      this.#byQueue = new Map();
      this.#count = 0;
    }
    this.#count += 1;
    const entry = new SpanAttributes(this.#operation, queue, kind);
    const ofQueue = this.#byQueue.get(queue);
    if (ofQueue === undefined) this.#byQueue.set(queue, new Map([[kind, entry]]));
    else ofQueue.set(kind, entry);
    return entry;
  }
}

/** The queue of the jobs; undefined if they are in several. */
export function queueOf(jobs: readonly { readonly queue: string }[]): string | undefined {
  const first = jobs[0]?.queue;
  return jobs.every(({ queue }) => queue === first) ? first : undefined;
}
