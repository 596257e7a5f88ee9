/**
 * Whether this is a run of the lab (`npm run test:lab`): whole matrices and full sizes, where `npm test` runs a slice of
 * them. lab/README.md lists them.
 */
export const inLab = process.env["STINT_TEST_LAB"] === "1";

/** The slice of these cases in `npm test`, all of them in the lab. */
export function slice<Case>(all: readonly Case[], isKept: (one: Case) => boolean): Case[] {
  const kept = inLab ? [...all] : all.filter(isKept);
  if (kept.length === 0) throw new Error("No case stays in npm test: an item would have no test");
  return kept;
}
