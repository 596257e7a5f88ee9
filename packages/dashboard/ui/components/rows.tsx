import { useNavigate } from "@tanstack/react-router";
import { useMemo, useState, type ReactNode } from "react";
import { number } from "../format.ts";
import { useShortcuts } from "../shortcuts.ts";
import { Button } from "./button.tsx";
import { destination, type To } from "./link.tsx";
import { contains, sorted } from "./rows-order.ts";
import { ariaSort, SortButton, type Order } from "./sort-header.tsx";
import "./rows.css";

export type Column<Item> = {
  readonly title: string;
  readonly cell: (item: Item) => ReactNode;
  /** Aligned to the right. */
  readonly number?: boolean;
  /** The name of the row: read first by screen readers, and the title of the card on a phone. */
  readonly head?: boolean;
  /** Takes a whole line of the card on a phone. */
  readonly wide?: boolean;
  /** Hidden first, or second, on a narrow table. A card shows all columns. */
  readonly leaves?: "first" | "next";
  /** The value to sort by; null comes last in both directions. */
  readonly sort?: (item: Item) => number | string | null;
};

/** Rows drawn at first, and added by "Show more": hundreds of rows with charts, redrawn every few seconds, slow down the page. */
const page = 50;

/**
 * A list that draws its first rows, and more on demand. On a phone each row is a card. `j`, `k` and Enter navigate.
 */
export function Rows<Item>({
  label,
  columns,
  items: given,
  id,
  open,
  look,
  few = false,
  filter,
}: {
  readonly label: string;
  readonly columns: readonly Column<Item>[];
  /** Undefined while loading. */
  readonly items: readonly Item[] | undefined;
  readonly id: (item: Item) => string;
  /** The target of Enter. */
  readonly open?: (item: Item) => To;
  /** A tone for the row's edge. */
  readonly look?: (item: Item) => string;
  /** The columns are few and short enough to stay a table in half a page and on a phone. */
  readonly few?: boolean;
  /** A field above the rows that filters them by text. */
  readonly filter?: {
    readonly label: string;
    readonly text: (item: Item) => string;
    /** The caller searches beyond these items. */
    readonly onChange?: (wanted: string) => void;
  };
}) {
  const [wanted, setWanted] = useState("");
  const [order, setOrder] = useState<Order>();
  const all = useMemo(() => {
    const kept = given?.filter((item) => contains(filter?.text(item), wanted));
    const column = columns.find(({ title }) => title === order?.column);
    return kept === undefined || order === undefined || column?.sort === undefined
      ? kept
      : sorted(kept, column.sort, order.down);
  }, [given, columns, filter, wanted, order]);
  const [current, setCurrent] = useState<string | null>(null);
  const [most, setMost] = useState(page);
  const items = useMemo(() => all?.slice(0, most), [all, most]);
  const navigate = useNavigate();
  const move = (by: number) => {
    if (items === undefined || items.length === 0) return;
    const at = items.findIndex((item) => id(item) === current);
    const next = items[at === -1 ? 0 : Math.min(items.length - 1, Math.max(0, at + by))];
    if (next === undefined) return;
    setCurrent(id(next));
    document.getElementById(rowId(label, id(next)))?.scrollIntoView({ block: "nearest" });
  };
  // Rows without a target leave the keys to another list on the page.
  useShortcuts(
    {
      j: () => move(1),
      k: () => move(-1),
      Enter: () => {
        const item = items?.find((candidate) => id(candidate) === current);
        if (item !== undefined && open !== undefined) void navigate(destination(open(item)));
      },
    },
    open !== undefined,
  );

  return (
    <div className={few ? "rows rows-few card" : "rows rows-many card"}>
      {filter === undefined || given === undefined || (given.length < 2 && wanted === "") ? null : (
        <div className="rows-filter">
          <input
            type="search"
            aria-label={filter.label}
            placeholder={filter.label}
            autoComplete="off"
            spellCheck={false}
            value={wanted}
            onChange={(event) => {
              setWanted(event.currentTarget.value);
              filter.onChange?.(event.currentTarget.value.trim());
            }}
          />
          {wanted === "" ? null : (
            <span role="status" className="muted">
              {number(all?.length ?? 0)} of {number(given.length)}
            </span>
          )}
        </div>
      )}
      <table>
        <caption className="spoken">{label}</caption>
        <thead>
          <tr>
            {columns.map(({ title, number, leaves, sort }) => (
              <th
                key={title}
                scope="col"
                className={number === true ? "num" : ""}
                data-leaves={leaves}
                aria-sort={ariaSort(order, title)}
              >
                {sort === undefined ? (
                  title
                ) : (
                  <SortButton
                    title={title}
                    column={title}
                    numeric={number === true}
                    order={order}
                    setOrder={setOrder}
                  />
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {items === undefined
            ? Array.from({ length: 4 }, (_, row) => (
                <tr key={row} aria-hidden="true">
                  {columns.map(({ title }) => (
                    <td key={title}>
                      <span className="rows-wait" />
                    </td>
                  ))}
                </tr>
              ))
            : items.map((item) => (
                <tr
                  key={id(item)}
                  id={rowId(label, id(item))}
                  className={look?.(item) ?? ""}
                  aria-current={id(item) === current ? "true" : undefined}
                >
                  {columns.map(({ title, cell, number, head, wide, leaves }) => {
                    const Cell = head === true ? "th" : "td";
                    const classes = [number === true ? "num" : "", wide === true ? "wide" : ""];
                    return (
                      <Cell
                        key={title}
                        {...(head === true ? { scope: "row" } : {})}
                        className={classes.join(" ").trim()}
                        data-title={title}
                        data-leaves={leaves}
                      >
                        {cell(item)}
                      </Cell>
                    );
                  })}
                </tr>
              ))}
        </tbody>
      </table>
      {all === undefined || all.length <= most ? null : (
        <p className="rows-more">
          <span role="status">
            {number(most)} of {number(all.length)} shown
          </span>
          <Button small onClick={() => setMost(most + page)}>
            Show {number(Math.min(page, all.length - most))} more
          </Button>
          <Button small look="quiet" onClick={() => setMost(Infinity)}>
            Show all
          </Button>
        </p>
      )}
    </div>
  );
}

const rowId = (label: string, id: string) => `${label}-${id}`.replaceAll(/\s/g, "-");
