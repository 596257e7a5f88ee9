import type { ReactNode } from "react";
import type { SearchSchema } from "./url.ts";

/**
 * A screen is one folder: `screens/<name>/index.tsx` exports it as `screen`, and `screens.ts` lists it. The routes, the navigation,
 * the palette and the keys follow from that list.
 */
export type Screen = {
  /** Such as `/queues`, or `/queues/$queue` with a parameter. */
  readonly path: string;
  readonly title: string;
  /** The SVG path of a 16 by 16 line icon. A screen without one is not in the navigation. */
  readonly icon?: string;
  /** `g` and then this letter opens it. */
  readonly key?: string;
  /** The URL parameters of the screen. */
  readonly search?: SearchSchema;
  readonly component: () => ReactNode;
};
