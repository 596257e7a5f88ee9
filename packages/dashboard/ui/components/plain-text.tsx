import "./plain-text.css";

/**
 * Characters that are not seen but change what is seen: controls, the marks that turn the direction of writing, joiners of no
 * width, tags. A payload may hold them to make one thing look like another, so they are shown by their number.
 */
const unseen =
  // oxlint-disable-next-line no-control-regex, no-misleading-character-class -- these are the characters meant
  /[\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F\u00AD\u061C\u180E\u200B\u200E\u200F\u2028\u2029\u202A-\u202E\u2060-\u2064\u2066-\u206F\uFEFF\uFFF9-\uFFFB]|[\u{E0000}-\u{E007F}]/gu;

export type Piece = { readonly text: string; readonly unseen: boolean };

/** The text in pieces: what can be shown as it is, and the names of characters that cannot be seen. */
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

/** The same as one text, for titles and labels. */
export function reveal(text: string): string {
  return pieces(text)
    .map((piece) => piece.text)
    .join("");
}

/** Text that others wrote. Only text nodes, cut off from the direction of what stands around it. */
export function PlainText({
  children,
  className,
  whole = false,
}: {
  children: string;
  className?: string;
  /** It may be cut where it stands: show all of it to those who point at it. */
  whole?: boolean;
}) {
  const name = className === undefined ? "plain-text" : `plain-text ${className}`;
  return (
    <bdi className={name} title={whole ? reveal(children) : undefined}>
      {pieces(children).map((piece, index) =>
        piece.unseen ? (
          // The pieces of one text never move
          <span key={index} className="plain-text-unseen" title="A character that is not seen">
            {piece.text}
          </span>
        ) : (
          piece.text
        ),
      )}
    </bdi>
  );
}
