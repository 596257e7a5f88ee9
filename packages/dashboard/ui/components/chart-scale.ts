/** A level more than this many times the highest figure is labelled at the edge instead of drawn. */
const levelInSight = 4;

/**
 * The top of the scale. It includes the level only if the figures are near it. With a level of minutes on the scale, waits of
 * milliseconds would be a flat line at zero.
 */
export function topOf(max: number | null, level = 0): number {
  if (max === null || max <= 0) return level || 1;
  return level > levelInSight * max ? max : Math.max(max, level);
}
