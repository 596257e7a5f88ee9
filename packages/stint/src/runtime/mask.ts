const scheme = /[a-z0-9+.-]{0,32}:\/\//i;
// A user without a scheme, or with a misspelt one, at the start of a word or after a character that opens a value.
const bareUser = /(?:^|["'`([{=,<])[\w.%+~/\\-]{1,63}:(?!\/\/)/;

const namedPassword =
  /(\w{0,32}(?:password|passwd|pwd)["']?\s{0,8}[=:]\s{0,8})('(?:[^'\\]|\\.){0,4096}'|"(?:[^"\\]|\\.){0,4096}"|[^\s&]+)/gi;

/** The most passes over a text: a bound keeps the search linear. Two were enough for 300,000 random texts. */
const mostPasses = 8;

/** Masks passwords in the text: in URLs, before an @, and written as `password=…`. Masking the result again changes nothing. */
export function maskUrl(text: string): string {
  let masked = text;
  for (let pass = 0; pass < mostPasses; pass++) {
    const before = masked;
    masked = maskOnce(before);
    // A mask can make the rest of its word look like another password: `password://&@`.
    if (masked === before) break;
  }
  return masked;
}

function maskOnce(text: string): string {
  return text
    .replaceAll(/\S+/g, maskWord)
    .replaceAll(namedPassword, (_, name: string, value: string) => name + stars(value));
}

/** Linear in the length of the text: a hostile text cannot make the search quadratic. */
function maskWord(word: string): string {
  // Up to the last @ of the word: a password with an unescaped @ must be masked completely.
  const end = word.lastIndexOf("@");
  if (end === -1) return word;
  const url = scheme.exec(word);
  const bare = url === null ? bareUser.exec(word) : null;
  const colon =
    url !== null
      ? word.indexOf(":", url.index + url[0].length)
      : bare !== null
        ? bare.index + bare[0].length - 1
        : word.indexOf(":");
  if (colon === -1 || colon >= end) return word;
  // Not a user name, for example a JSON field.
  if (url === null && bare === null && /["']/.test(word.slice(colon, end))) return word;
  return `${word.slice(0, colon)}:***${word.slice(end)}`;
}

/** Keeps the quotes: without them, masking the text again would mask the following word, too. */
function stars(value: string): string {
  const quote = /^(["']).*\1$/s.exec(value)?.[1] ?? "";
  return `${quote}***${quote}`;
}

// CSI (ESC [ … letter), OSC (ESC ] … BEL or ESC \), and the two-character escapes.
const escapeSequence =
  // eslint-disable-next-line no-control-regex
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|(?:\u001b\]|\u009d)[^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)?|\u001b[ -/]*[0-~]/g;

// Bidirectional control characters can reorder a line on screen.
const directionMark = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/**
 * The text as one line that is safe to print on a terminal.
 *
 * Names and messages come from users; an escape sequence in one could move the cursor, forge lines or set the
 * title of the window. Line breaks and tabs become spaces; print the lines of a stack one by one.
 */
export function printable(text: string): string {
  return text
    .replaceAll(escapeSequence, "")
    .replaceAll(/\r\n|[\n\r\t\u0085\u2028\u2029]/g, " ")
    .replaceAll(/\p{Cc}/gu, "")
    .replaceAll(directionMark, "");
}
