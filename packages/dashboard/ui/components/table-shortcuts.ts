import { useEffect, useRef, type RefObject } from "react";
import { useShortcuts } from "../shortcuts.ts";

type Acts = {
  readonly open: (index: number) => void;
  /** `range`: all rows since the last one that was toggled. */
  readonly toggle: (index: number, range: boolean) => void;
};

/**
 * j and k (and the arrows, once a row has the focus) move the focus from row to row. The row that is read aloud, highlighted and
 * opened by Enter is always the same.
 */
export function useTableShortcuts(body: RefObject<HTMLTableSectionElement | null>, acts: Acts): void {
  const last = useRef<string | undefined>(undefined);

  const rows = (): HTMLElement[] => [...(body.current?.querySelectorAll<HTMLElement>("tr[data-row]") ?? [])];
  const focused = (): number => rows().findIndex((row) => row.contains(document.activeElement));
  const move = (by: number): void => {
    const all = rows();
    const now = focused();
    // Without a focused row, the first key only focuses the current row.
    const next = now === -1 ? (last.current === undefined ? 0 : indexOf(all, last.current)) : now + by;
    const row = all[Math.max(0, Math.min(all.length - 1, next))];
    row?.focus();
    row?.scrollIntoView({ block: "nearest" });
  };
  const onFocused = (act: (index: number) => void): void => {
    const index = focused();
    if (index !== -1) act(index);
  };

  useShortcuts({
    j: () => move(1),
    k: () => move(-1),
    x: (event) => onFocused((index) => acts.toggle(index, event.shiftKey)),
    Enter: () => onFocused((index) => acts.open(index)),
  });

  useEffect(() => {
    const section = body.current;
    if (section === null) return undefined;
    const onArrow = (event: KeyboardEvent): void => {
      if (!(event.target instanceof HTMLElement) || event.target.dataset["row"] === undefined) return;
      if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
      event.preventDefault();
      move(event.key === "ArrowDown" ? 1 : -1);
    };
    const onFocus = (event: FocusEvent): void => {
      const row = (event.target as HTMLElement).closest<HTMLElement>("tr[data-id]");
      if (row !== null) last.current = row.dataset["id"];
    };
    section.addEventListener("keydown", onArrow);
    section.addEventListener("focusin", onFocus);
    return () => {
      section.removeEventListener("keydown", onArrow);
      section.removeEventListener("focusin", onFocus);
    };
    // oxlint-disable-next-line react/exhaustive-deps -- `move` reads the page, nothing of this render
  }, [body]);
}

function indexOf(rows: readonly HTMLElement[], id: string): number {
  const index = rows.findIndex((row) => row.dataset["id"] === id);
  return index === -1 ? 0 : index;
}
