type Attributes = Readonly<Record<string, string | number>>;

/** One element. Its content must be SVG. */
export function element(name: string, attributes: Attributes, content = ""): string {
  const written = Object.entries(attributes).map(([key, value]) => ` ${key}="${escape(String(value))}"`);
  return content === ""
    ? `<${name}${written.join("")}/>`
    : `<${name}${written.join("")}>${content}</${name}>`;
}

export type TextStyle = {
  size?: number;
  bold?: boolean;
  fill?: string;
  anchor?: "start" | "middle" | "end";
  /** A white outline, for text that may cross a line. */
  halo?: boolean;
};

/** Text whose baseline is at `y`. */
export function text(x: number, y: number, words: string, style: TextStyle = {}): string {
  const { size = 12, bold = false, fill = "#1f2328", anchor = "start", halo = false } = style;
  return element(
    "text",
    {
      x: round(x),
      y: round(y),
      "font-size": size,
      fill,
      "text-anchor": anchor,
      ...(bold ? { "font-weight": 600 } : {}),
      ...(halo ? { stroke: "#ffffff", "stroke-width": 3, "paint-order": "stroke" } : {}),
    },
    escape(words),
  );
}

export function rectangle(x: number, y: number, width: number, height: number, more: Attributes): string {
  return element("rect", {
    x: round(x),
    y: round(y),
    width: round(width),
    height: round(height),
    ...more,
  });
}

export function line(x1: number, y1: number, x2: number, y2: number, more: Attributes): string {
  return element("line", { x1: round(x1), y1: round(y1), x2: round(x2), y2: round(y2), ...more });
}

/** Rounded to tenths of a pixel, which keeps the files small. */
function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function escape(words: string): string {
  return words.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}
