import {
  createColumnHelper,
  rowSelectionFeature,
  tableFeatures,
  useTable,
  type RowSelectionState,
} from "@tanstack/react-table";
import { useMemo, useRef, useState, type MouseEvent, type ReactNode } from "react";
import { sorted } from "./rows-order.ts";
import { ariaSort, SortButton, type Order } from "./sort-header.tsx";
import { useTableShortcuts } from "./table-shortcuts.ts";
import "./table.css";

export type Column<Row> = {
  readonly id: string;
  readonly header: string;
  readonly cell: (row: Row) => ReactNode;
  /** Aligned to the right, with digits of equal width. */
  readonly align?: "end";
  /** The place in a phone's card: its title, the corner next to it, a line with or without label, or hidden. */
  readonly card?: "title" | "corner" | "line" | "plain" | "none";
  /** Takes the remaining width, and cuts its text. */
  readonly grow?: boolean;
  /** Hidden on narrow screens. */
  readonly leaves?: "first" | "next";
  /** Only for an unpaged list: sorting one page of many would mislead. Null comes last. */
  readonly sort?: (row: Row) => number | string | null;
};

export type Selection = {
  readonly ids: ReadonlySet<string>;
  readonly change: (ids: ReadonlySet<string>) => void;
};

const features = tableFeatures({ rowSelectionFeature });

/**
 * A table: j and k move, Enter opens, x selects, Shift with x or a click selects a range. On narrow screens its rows become
 * cards.
 */
export function Table<Row extends object>({
  label,
  columns,
  rows,
  rowId,
  rowName,
  onOpen,
  selection,
  empty,
}: {
  label: string;
  columns: readonly Column<Row>[];
  /** Undefined while loading. */
  rows: readonly Row[] | undefined;
  rowId: (row: Row) => string;
  /** The name of a row, for screen readers. */
  rowName: (row: Row) => string;
  onOpen?: (row: Row) => void;
  selection?: Selection | undefined;
  empty: ReactNode;
}) {
  const body = useRef<HTMLTableSectionElement>(null);
  const [order, setOrder] = useState<Order>();
  const data = useMemo(() => {
    const by = columns.find(({ id }) => id === order?.column)?.sort;
    return order === undefined || by === undefined ? [...(rows ?? [])] : sorted(rows ?? [], by, order.down);
  }, [rows, columns, order]);
  const defined = useMemo(() => {
    const helper = createColumnHelper<typeof features, Row>();
    return helper.columns(
      columns.map((column) =>
        helper.display({
          id: column.id,
          header: column.header,
          cell: ({ row }) => column.cell(row.original),
        }),
      ),
    );
  }, [columns]);
  const chosen = useMemo(() => toState(selection?.ids), [selection?.ids]);

  const table = useTable({
    features,
    columns: defined,
    data,
    getRowId: rowId,
    enableRowSelection: selection !== undefined,
    state: { rowSelection: chosen },
    onRowSelectionChange: (change) => {
      const next = typeof change === "function" ? change(chosen) : change;
      selection?.change(new Set(Object.keys(next).filter((id) => next[id] === true)));
    },
  });
  const shown = table.getRowModel().rows;

  useTableShortcuts(body, {
    open: (index) => {
      const row = shown[index];
      if (row !== undefined) onOpen?.(row.original);
    },
    toggle: (index, range) => {
      const row = shown[index];
      if (row === undefined || selection === undefined) return;
      row.getToggleSelectedHandler()({ target: { checked: !row.getIsSelected() }, shiftKey: range });
    },
  });

  const byId = new Map(columns.map((column) => [column.id, column]));
  return (
    <div className="table-frame" aria-busy={rows === undefined}>
      {/* Displaying rows as cards removes the table semantics for screen readers; explicit roles restore them. */}
      <table className="table" role="table" aria-label={label}>
        <thead role="rowgroup">
          {table.getHeaderGroups().map((group) => (
            <tr key={group.id} role="row">
              {selection === undefined ? null : (
                <th role="columnheader" scope="col" className="table-check">
                  <input
                    type="checkbox"
                    aria-label="Select all rows of this page"
                    disabled={shown.length === 0}
                    checked={shown.length > 0 && table.getIsAllRowsSelected()}
                    ref={(box) => {
                      if (box !== null) box.indeterminate = table.getIsSomeRowsSelected();
                    }}
                    onChange={(event) => table.toggleAllRowsSelected(event.currentTarget.checked)}
                  />
                </th>
              )}
              {group.headers.map((header) => (
                <th
                  key={header.id}
                  role="columnheader"
                  scope="col"
                  data-align={byId.get(header.column.id)?.align}
                  data-grow={byId.get(header.column.id)?.grow}
                  data-leaves={byId.get(header.column.id)?.leaves}
                  aria-sort={ariaSort(order, header.column.id)}
                >
                  {byId.get(header.column.id)?.sort === undefined ? (
                    <table.FlexRender header={header} />
                  ) : (
                    <SortButton
                      title={byId.get(header.column.id)?.header ?? ""}
                      column={header.column.id}
                      numeric={byId.get(header.column.id)?.align === "end"}
                      order={order}
                      setOrder={setOrder}
                    />
                  )}
                </th>
              ))}
            </tr>
          ))}
        </thead>
        <tbody ref={body} role="rowgroup">
          {rows === undefined ? (
            <SkeletonRows columns={columns} check={selection !== undefined} />
          ) : (
            shown.map((row, index) => (
              <tr
                key={row.id}
                role="row"
                data-row={index}
                data-id={row.id}
                tabIndex={index === 0 ? 0 : -1}
                aria-label={rowName(row.original)}
                data-selected={row.getIsSelected() || undefined}
                data-opens={onOpen === undefined ? undefined : true}
                onClick={(event) => {
                  if (onOpen !== undefined && isPlainClick(event)) onOpen(row.original);
                }}
              >
                {selection === undefined ? null : (
                  <td role="cell" className="table-check">
                    <input
                      type="checkbox"
                      tabIndex={-1}
                      aria-label={`Select ${rowName(row.original)}`}
                      checked={row.getIsSelected()}
                      // Handled on click: the change event has no Shift state.
                      onChange={() => undefined}
                      onClick={(event) => row.getToggleSelectedHandler()(event)}
                    />
                  </td>
                )}
                {row.getAllCells().map((cell) => {
                  const column = byId.get(cell.column.id);
                  return (
                    <td
                      key={cell.id}
                      role="cell"
                      data-label={column?.header}
                      data-align={column?.align}
                      data-grow={column?.grow}
                      data-card={column?.card ?? "line"}
                      data-leaves={column?.leaves}
                    >
                      <div>
                        <table.FlexRender cell={cell} />
                      </div>
                    </td>
                  );
                })}
              </tr>
            ))
          )}
        </tbody>
      </table>
      {rows !== undefined && rows.length === 0 ? <div className="table-empty">{empty}</div> : null}
    </div>
  );
}

/** Enough placeholder rows to fill the first screen, so that the layout does not shift when the rows load. */
function SkeletonRows<Row>({ columns, check }: { columns: readonly Column<Row>[]; check: boolean }) {
  return Array.from({ length: 8 }, (_, index) => (
    // Placeholder rows are identical
    <tr key={index} role="row" className="table-skeleton" aria-hidden="true">
      {check ? <td className="table-check" /> : null}
      {columns.map((column) => (
        <td
          key={column.id}
          data-grow={column.grow}
          data-card={column.card ?? "line"}
          data-leaves={column.leaves}
        >
          <span />
        </td>
      ))}
    </tr>
  ));
}

/** Ignores clicks on links and checkboxes, text selections, and clicks for a new tab. */
function isPlainClick(event: MouseEvent<HTMLElement>): boolean {
  if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return false;
  if ((event.target as HTMLElement).closest("a, button, input, label, .table-check") !== null) return false;
  return (window.getSelection()?.toString() ?? "") === "";
}

function toState(ids: ReadonlySet<string> | undefined): RowSelectionState {
  return Object.fromEntries([...(ids ?? [])].map((id) => [id, true as const]));
}
