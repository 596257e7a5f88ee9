import { say, paint, safe, type Output, type Piece, type Style } from "./output.ts";

export type Column<Row> = {
  readonly title: string;
  readonly cell: (row: Row) => Piece;
  readonly align?: "right";
  /** Cut longer cells to this; on a narrow terminal, cut more or leave the column out. Ids have none: a cut id cannot be copied. */
  readonly most?: number;
  /** Left out first where the terminal is narrow, in this order: the other columns matter more. */
  readonly leaves?: number;
};

const gap = "  ";
const least = 16;
/** A text cut to this length is still recognizable. */
const enough = 28;

/** What a table is written for: how wide it may be, and how colours are put on. */
export type Paper = Pick<Output, "width" | "dye"> & {
  /** Whether nothing may be wider, whatever it costs: a line that wraps would break a screen. */
  readonly hard?: boolean;
};

/** Print rows in aligned columns, no wider than the terminal as far as that can be had. */
export function table<Row>(out: Output, columns: readonly Column<Row>[], rows: readonly Row[]): void {
  for (const line of tableLines(out, columns, rows)) out.shown([line], "");
}

/** The same as lines, for callers that write them elsewhere. */
export function tableLines<Row>(out: Paper, columns: readonly Column<Row>[], rows: readonly Row[]): string[] {
  const lines = [
    columns.map((column) => toCell(paint("dim", column.title))),
    ...rows.map((row) => columns.map((column) => toCell(column.cell(row), column.most))),
  ];
  const widths = columns.map((column, index) => {
    const cells = lines.map((line) => line[index]?.text ?? "");
    // An empty column would only push the others apart.
    const empty = index > 0 && cells.slice(1).every((text) => text === "");
    return { width: empty ? 0 : Math.max(...cells.map(widthOf)), column };
  });
  if (out.width !== undefined) narrow(widths, out.width, out.hard === true);

  return lines.map((line) => {
    const parts = widths.flatMap(({ width, column }, index) => {
      if (width === 0) return [];
      const { text = "", style } = line[index] ?? {};
      return [out.dye(pad(cut(text, width), width, column.align), style)];
    });
    return parts.join(gap).trimEnd();
  });
}

type Width = { width: number; readonly column: { readonly most?: number; readonly leaves?: number } };

/**
 * Leave out the columns that are missed least; then take from those that may be cut, the last first; if that is not enough, leave
 * them out in the same order. Where the width is hard, then the others, too, and the first is cut.
 */
function narrow(widths: readonly Width[], most: number, hard: boolean): void {
  const total = widths.reduce((sum, { width }) => sum + (width === 0 ? 0 : width + gap.length), -gap.length);
  let over = total - most;
  const leaveOut = (one: Width): void => {
    if (one.width > 0) over -= one.width + gap.length;
    one.width = 0;
  };
  const leaving = widths.filter(({ column }) => column.leaves !== undefined);
  for (const one of leaving.toSorted((a, b) => (a.column.leaves ?? 0) - (b.column.leaves ?? 0))) {
    if (over <= spare(widths)) break;
    leaveOut(one);
  }
  const mayShrink = widths.filter(({ column }) => column.most !== undefined).reverse();
  for (const one of mayShrink) {
    const taken = Math.max(0, Math.min(over, one.width - least));
    one.width -= taken;
    over -= taken;
  }
  for (const one of mayShrink) {
    if (over <= 0) return;
    leaveOut(one);
  }
  if (!hard) return;
  const left = widths.filter(({ width }) => width > 0);
  for (const one of left.slice(2).reverse()) {
    if (over <= 0) return;
    leaveOut(one);
  }
  const last = left.slice(0, 2).at(-1);
  if (last !== undefined && over > 0) last.width = Math.max(1, last.width - over);
}

/** How much can be taken from texts that stay long enough to be read. */
function spare(widths: readonly Width[]): number {
  return widths.reduce(
    (sum, { width, column }) => sum + (column.most === undefined ? 0 : Math.max(0, width - enough)),
    0,
  );
}

/** Print names and values, one pair a line, with the values aligned. Pairs without a value are left out. */
export function pairs(out: Output, entries: readonly (readonly [string, Piece | null | undefined])[]): void {
  const shown = entries.filter(([, piece]) => piece !== null && piece !== undefined && piece !== "");
  const width = Math.max(0, ...shown.map(([name]) => name.length));
  for (const [name, piece] of shown) out.line(say`${paint("dim", name.padEnd(width))}  ${piece ?? ""}`);
}

/** Shorten to a width, with a mark where something is missing. */
export function cut(text: string, most: number): string {
  if (widthOf(text) <= most) return text;
  let kept = "";
  let width = 0;
  for (const { segment } of graphemes.segment(text)) {
    width += widthOf(segment);
    if (width > most - 1) break;
    kept += segment;
  }
  return `${kept}…`;
}

const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });
const wide =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\uff01-\uff60]/u;
const plain = /^[ -~]*$/;

/** Columns the text takes on a terminal. */
function widthOf(text: string): number {
  if (plain.test(text)) return text.length;
  let width = 0;
  for (const { segment } of graphemes.segment(text)) width += wide.test(segment) ? 2 : 1;
  return width;
}

function pad(text: string, width: number, align: "right" | undefined): string {
  const fill = " ".repeat(Math.max(0, width - widthOf(text)));
  return align === "right" ? fill + text : text + fill;
}

/** A piece whose text is safe and short. Made so once: masking what is masked would eat what follows it. */
type Cell = { readonly text: string; readonly style: Style | undefined };

function toCell(piece: Piece, most = Number.POSITIVE_INFINITY): Cell {
  const { text, style } = typeof piece === "object" ? piece : { text: String(piece), style: undefined };
  return { text: cut(safe(text), most), style };
}
