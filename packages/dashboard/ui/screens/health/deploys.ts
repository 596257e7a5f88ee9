/** The first start of each worker version, among the workers that are still listed. */
export function deploysOf(
  workers: readonly { readonly version: string; readonly startedAt: string }[],
  sinceSeconds: number,
): { at: number; title: string }[] {
  const first = new Map<string, number>();
  for (const { version, startedAt } of workers) {
    const at = Date.parse(startedAt) / 1_000;
    if (!Number.isNaN(at)) first.set(version, Math.min(at, first.get(version) ?? at));
  }
  return [...first]
    .filter(([, at]) => at >= sinceSeconds)
    .map(([version, at]) => ({ at, title: version }))
    .sort((a, b) => a.at - b.at);
}
