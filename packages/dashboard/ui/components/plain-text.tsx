import "./plain-text.css";

/**
 * Invisible characters that change how text looks: control characters, bidirectional marks, zero-width joiners, tags. A payload
 * may use them for spoofing, so they are shown as their code points.
 */
const unseen =
  // oxlint-disable-next-line no-control-regex, no-misleading-character-class -- these are the characters meant
  /[\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F\u00AD\u061C\u180E\u200B\u200E\u200F\u2028\u2029\u202A-\u202E\u2060-\u2064\u2066-\u206F\uFEFF\uFFF9-\uFFFB]|[\u{E0000}-\u{E007F}]/gu;

export type Piece = { readonly text: string; readonly unseen: boolean };

/** Splits text into visible pieces and the code points of invisible characters. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let from = 0;
  for (const match of text.matchAll(unseen)) {
    if (match.index > from) found.push({ text: text.slice(from, match.index), unseen: false });
    const code = match[0].codePointAt(0) ?? 0;
    found.push({ text: `U+${code.toString(16).toUpperCase().padStart(4, "0")}`, unseen: true });
    from = match.index + match[0].length;
  }
  if (from < text.length) found.push({ text: text.slice(from), unseen: false });
  return found;
}

/** The pieces as one text, for titles and labels. */
export function reveal(text: string): string {
  return pieces(text)
    .map((piece) => piece.text)
    .join("");
}

/** Untrusted text: only text nodes, isolated from the surrounding text direction. */
export function PlainText({
  children,
  className,
  whole = false,
}: {
  children: string;
  className?: string;
  /** The layout may cut the text: show all of it as a tooltip. */
  whole?: boolean;
}) {
  const name = className === undefined ? "plain-text" : `plain-text ${className}`;
  return (
    <bdi className={name} title={whole ? reveal(children) : undefined}>
      {pieces(children).map((piece, index) =>
        piece.unseen ? (
          // The order of pieces in a text never changes
          <span key={index} className="plain-text-unseen" title="Invisible character">
            {piece.text}
          </span>
        ) : (
          piece.text
        ),
      )}
    </bdi>
  );
}
