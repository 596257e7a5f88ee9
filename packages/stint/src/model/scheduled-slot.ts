/** The slot of a schedule that enqueued a job. */
export type ScheduledSlot = { readonly name: string; readonly slot: Date };

/** Reads it from the meta of a job, which anything may have written. */
export function scheduledSlotOf(meta: Readonly<Record<string, unknown>>): ScheduledSlot | null {
  const written = meta["schedule"] as { readonly name?: unknown; readonly slot?: unknown } | null | undefined;
  if (written === undefined || written === null) return null;
  const { name, slot } = written;
  if (typeof name !== "string" || typeof slot !== "string") return null;
  const at = new Date(slot);
  return Number.isNaN(at.getTime()) ? null : { name, slot: at };
}
