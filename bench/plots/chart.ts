/** The content of a plot: panels of groups of bars. */
export type Chart = {
  /** The file name without extension. */
  readonly name: string;
  readonly title: string;
  readonly panels: readonly Panel[];
};

/** Groups of bars on one scale. */
export type Panel = {
  /** The measurement, its unit, and which direction is better. */
  readonly heading: string;
  /** For values whose smallest bar would be invisible on a linear scale. */
  readonly scale: "linear" | "log";
  /** Draws a line at this value, such as 100 %. */
  readonly line?: number;
  readonly groups: readonly Group[];
};

export type Group = { readonly heading: string; readonly bars: readonly Bar[] };

export type Bar = {
  readonly label: string;
  readonly value: number;
  readonly min: number;
  readonly max: number;
  readonly system: string;
  /** Paler: a default config next to a tuned one, a first window next to a last one. */
  readonly pale: boolean;
  /** The text at the end of the bar. */
  readonly text: string;
};
