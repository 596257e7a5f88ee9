/** Rebuilds the health from its stream: one full snapshot, then changes. */
import type { Health } from "stint/inspect";
import type { Wire } from "./api.ts";

type Queue = Wire<Health["queues"][number]>;
/** The minutes as three lists; the last one is that of the snapshot. */
type Recent = { arrived: readonly number[]; ended: readonly number[]; ready: readonly number[] };
type Row = Omit<Queue, "recent"> & { readonly recent?: Recent };
type Head = Omit<Wire<Health>, "queues">;
type Snapshot = Head & { readonly queues: readonly Row[] };
type Change = Partial<Head> & {
  readonly queues: readonly (Partial<Row> & { readonly queue: string })[];
  readonly gone?: readonly string[];
  readonly order?: readonly string[];
};

const minuteMs = 60_000;

export class HealthStream {
  #head: Head | undefined;
  #rows = new Map<string, Row>();

  begin(data: string): Wire<Health> | undefined {
    const { queues, ...head } = JSON.parse(data) as Snapshot;
    this.#head = head;
    this.#rows = new Map(queues.map((row) => [row.queue, row]));
    return this.#health();
  }

  /** Undefined: changes without a snapshot. */
  change(data: string): Wire<Health> | undefined {
    if (this.#head === undefined) return undefined;
    const { queues, gone = [], order, ...head } = JSON.parse(data) as Change;
    this.#head = { ...this.#head, ...head };
    for (const queue of gone) this.#rows.delete(queue);
    for (const row of queues) this.#rows.set(row.queue, { ...this.#rows.get(row.queue), ...row } as Row);
    if (order !== undefined)
      this.#rows = new Map(
        order.flatMap((queue) => {
          const row = this.#rows.get(queue);
          return row === undefined ? [] : [[queue, row] as const];
        }),
      );
    return this.#health();
  }

  #health(): Wire<Health> | undefined {
    if (this.#head === undefined) return undefined;
    const last = Math.floor(Date.parse(this.#head.at) / minuteMs) * minuteMs;
    return { ...this.#head, queues: [...this.#rows.values()].map((row) => withTimes(row, last)) };
  }
}

function withTimes({ recent, ...row }: Row, last: number): Queue {
  const { arrived = [], ended = [], ready = [] } = recent ?? {};
  return {
    ...row,
    recent: arrived.map((count, n) => ({
      at: new Date(last - (arrived.length - 1 - n) * minuteMs).toISOString(),
      arrived: count,
      ended: ended[n] ?? 0,
      ready: ready[n] ?? 0,
    })),
  };
}
