/** What a plot shows: panels of groups of bars. */
export type Chart = {
  /** The name of its file, without the ending. */
  readonly name: string;
  readonly title: string;
  readonly panels: readonly Panel[];
};

/** Groups that share one scale. */
export type Panel = {
  /** What is measured, in which unit, and which way is better. */
  readonly heading: string;
  /** Where the smallest bar could not be seen beside the largest. */
  readonly scale: "linear" | "log";
  /** A value to draw a line at, such as 100 %. */
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
  /** Paler: a default config beside a tuned one, a first window beside a last one. */
  readonly pale: boolean;
  /** What stands at the end of the bar. */
  readonly text: string;
};
