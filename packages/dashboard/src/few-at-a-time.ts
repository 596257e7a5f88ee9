/** Payloads may be large, and a page has many. */
const atOnce = 4;

/** Makes each of a page, four at a time. */
export async function fewAtATime<From, To>(
  all: readonly From[],
  make: (one: From) => Promise<To>,
): Promise<To[]> {
  const made: To[] = [];
  for (let from = 0; from < all.length; from += atOnce)
    made.push(...(await Promise.all(all.slice(from, from + atOnce).map(make))));
  return made;
}
