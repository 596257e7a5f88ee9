const special = /["\\]/;

/** A text as an element of an array, as Postgres reads it. */
export function arrayElement(text: string): string {
  // Nearly no text has such a character, and a search is quicker than a replacement.
  return special.test(text) ? `"${text.replaceAll(/["\\]/g, String.raw`\$&`)}"` : `"${text}"`;
}
