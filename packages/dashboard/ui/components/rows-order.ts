/** A sorted copy. Items without a value come last in both directions. */
export function sorted<Item>(
  items: readonly Item[],
  read: (item: Item) => number | string | null,
  down: boolean,
): Item[] {
  const keyed = items.map((item) => ({ item, key: read(item) }));
  keyed.sort((a, b) => {
    if (a.key === null || b.key === null) return Number(a.key === null) - Number(b.key === null);
    const order =
      typeof a.key === "string" || typeof b.key === "string"
        ? String(a.key).localeCompare(String(b.key))
        : a.key - b.key;
    return down ? -order : order;
  });
  return keyed.map(({ item }) => item);
}

/** Case-insensitive. Rows without a searchable text are kept. */
export function contains(text: string | undefined, wanted: string): boolean {
  return text === undefined || text.toLowerCase().includes(wanted.trim().toLowerCase());
}
