/** The sort order of an unpaged table, and the button in a column header that changes it. */

export type Order = { readonly column: string; readonly down: boolean };

/** The first click sorts: numbers descending, names ascending. The second reverses, the third clears. */
export function nextOrder(now: Order | undefined, column: string, numeric: boolean): Order | undefined {
  if (now?.column !== column) return { column, down: numeric };
  return now.down === numeric ? { column, down: !numeric } : undefined;
}

/** For `aria-sort` of the column's head. */
export function ariaSort(order: Order | undefined, column: string): "ascending" | "descending" | undefined {
  return order?.column !== column ? undefined : order.down ? "descending" : "ascending";
}

export function SortButton({
  title,
  column,
  numeric,
  order,
  setOrder,
}: {
  readonly title: string;
  readonly column: string;
  readonly numeric: boolean;
  readonly order: Order | undefined;
  readonly setOrder: (order: Order | undefined) => void;
}) {
  return (
    <button type="button" className="sort-button" onClick={() => setOrder(nextOrder(order, column, numeric))}>
      {title}
      <span aria-hidden="true">{order?.column !== column ? "" : order.down ? " ↓" : " ↑"}</span>
    </button>
  );
}
