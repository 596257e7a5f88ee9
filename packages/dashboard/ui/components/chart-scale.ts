/** How many times as high as the figures a level may be before it is named at the edge instead of drawn. */
const levelInSight = 4;

/**
 * The top of the scale. The level stays in sight while the figures come near it. Far below it they have the scale to themselves:
 * under a target of minutes, waits of milliseconds would be a flat line at zero.
 */
export function topOf(max: number | null, level = 0): number {
  if (max === null || max <= 0) return level || 1;
  return level > levelInSight * max ? max : Math.max(max, level);
}
