import type { Verdict } from "./verdict.ts";

/** The handler of this attempt has ended: with a verdict, by throwing, or, with neither, after it has recorded its own success. */
export type OnEnd<A> = (
  attempt: A,
  verdict: Verdict | undefined,
  thrown?: { readonly value: unknown },
) => void;

/** Call `onEnd` with the verdict, or with what was thrown. */
export function report<A>(verdict: Promise<Verdict | undefined>, attempt: A, onEnd: OnEnd<A>): void {
  verdict.then(
    (decided) => onEnd(attempt, decided),
    (thrown: unknown) => onEnd(attempt, undefined, { value: thrown }),
  );
}
