import type { Attributes, SpanKind, SpanOptions } from "@opentelemetry/api";
import { names } from "./semconv.ts";

/** Told apart at most, of each. Beyond, what is named by whoever throws or enqueues would fill the memory. */
const mostErrors = 100;
const mostEntries = 1_000;
/** The conventions' word for an error that is not told apart. */
const otherError = "_OTHER";

/** What all operations of one sort on one queue, and one kind, have in common. Its attributes are made once and shared. */
export class SpanAttributes {
  readonly queue: string | undefined;
  readonly kind: string | undefined;
  readonly name: string;
  readonly attributes: Readonly<Attributes>;
  /** To begin a span with: what a sampler may decide by. */
  readonly options: Readonly<SpanOptions>;
  /** The others, for a span that is recorded: a sampler that says no has cost a copy of each attribute it was given. */
  readonly others: Readonly<Attributes>;
  readonly #failed = new Map<string, Readonly<Attributes>>();
  /** Until when a job whose enqueue was not sampled need not be asked about. */
  silentUntil = 0;

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

  /** The same for those that went wrong in this way. */
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
  /** Of its spans. */
  readonly kind: SpanKind;
  /** What everything of one client has in common. */
  readonly common: Readonly<Attributes>;
};

/** The span attributes of one operation. */
export class SpanAttributesCache {
  readonly #operation: Operation;
  #byQueue = new Map<string | undefined, Map<string | undefined, SpanAttributes>>();
  #count = 0;
  #last: SpanAttributes | undefined;

  constructor(operation: Operation) {
    this.#operation = operation;
  }

  of(queue: string | undefined, kind?: string): SpanAttributes {
    // Nearly always the same as before.
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

/** The queue, where all of them are for the same one. */
export function queueOf(jobs: readonly { readonly queue: string }[]): string | undefined {
  const first = jobs[0]?.queue;
  return jobs.every(({ queue }) => queue === first) ? first : undefined;
}
