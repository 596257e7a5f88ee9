/** Complete steps of a series. The current step has few counts yet: next to complete steps it would look like a drop to zero. */

type Timed = { readonly at: string };

/** Whether each step is over and all its counts have arrived. For older servers, which do not report this: all steps but the last. */
export function finishedSteps(series: {
  readonly points: readonly Timed[];
  readonly stepMs: number;
  readonly completeUntil?: string | undefined;
}): boolean[] {
  const { points, stepMs, completeUntil } = series;
  if (completeUntil === undefined) return points.map((_, index) => index < points.length - 1);
  const until = Date.parse(completeUntil);
  return points.map(({ at }) => Date.parse(at) + stepMs <= until);
}

/** The minutes that were over at this moment. Each is as long as the distance to the one before it. */
export function finishedMinutes<Minute extends Timed>(minutes: readonly Minute[], at: string): Minute[] {
  const [first, second] = minutes.map((minute) => Date.parse(minute.at));
  const lengthMs = first === undefined || second === undefined ? 0 : second - first;
  return minutes.filter((minute) => Date.parse(minute.at) + lengthMs <= Date.parse(at));
}
