/** The health on the event stream: one full snapshot, then changes. 500 queues are a megabyte, of which little changes in a few seconds. */

type Row = { readonly queue: string } & Readonly<Record<string, unknown>>;
export type Snapshot = { readonly queues: readonly Row[] } & Readonly<Record<string, unknown>>;

type Minute = { readonly arrived: number; readonly ended: number; readonly ready: number };

/** The stream's format. Minutes are three lists without times, so that the lists of an idle queue do not change. */
export function toSnapshot(json: string): Snapshot {
  const health = JSON.parse(json) as Snapshot;
  return { ...health, queues: health.queues.map(compact) };
}

function compact(row: Row): Row {
  const recent = row["recent"] as readonly Minute[] | undefined;
  if (recent === undefined) return row;
  const list = (of: keyof Minute): number[] => recent.map((minute) => minute[of]);
  return { ...row, recent: { arrived: list("arrived"), ended: list("ended"), ready: list("ready") } };
}

/** Changed fields, queues with their changed fields, and removed queues; `order` is set if the order of queues changed. */
export type Change = Readonly<Record<string, unknown>> & {
  readonly queues: readonly Row[];
  readonly gone?: readonly string[];
  readonly order?: readonly string[];
};

export function changeOf(before: Snapshot, after: Snapshot): Change {
  const known = new Map(before.queues.map((row) => [row.queue, row]));
  const now = new Set(after.queues.map(({ queue }) => queue));
  const queues = after.queues.flatMap((row) => {
    const changed = changedFields(known.get(row.queue), row);
    return Object.keys(changed).length === 0 ? [] : [{ ...changed, queue: row.queue }];
  });
  const gone = before.queues.map(({ queue }) => queue).filter((queue) => !now.has(queue));
  // The order at the reader: kept queues first, then new ones.
  const expected = [
    ...before.queues.map(({ queue }) => queue).filter((queue) => now.has(queue)),
    ...[...now].filter((queue) => !known.has(queue)),
  ];
  const order = [...now];
  const isMoved = order.some((queue, at) => queue !== expected[at]);
  const { queues: _, ...head } = changedFields(before, after);
  return {
    ...head,
    queues,
    ...(gone.length === 0 ? {} : { gone }),
    ...(isMoved ? { order } : {}),
  };
}

function changedFields(
  before: Readonly<Record<string, unknown>> | undefined,
  after: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  if (before === undefined) return after;
  const changed = Object.keys(after).filter(
    (key) => key !== "queues" && JSON.stringify(before[key]) !== JSON.stringify(after[key]),
  );
  return Object.fromEntries(changed.map((key) => [key, after[key]]));
}
