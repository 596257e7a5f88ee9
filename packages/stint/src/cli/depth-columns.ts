import type { Depth } from "../inspect/types.ts";
import { count } from "./figures.ts";
import type { Column } from "./table.ts";

/** How many jobs there are in each state, wherever a row has a depth. */
export const depthColumns: readonly Column<{ readonly depth: Depth }>[] = [
  { title: "READY", cell: ({ depth }) => count(depth.ready, "blue"), align: "right" },
  { title: "RUNNING", cell: ({ depth }) => count(depth.running, "yellow"), align: "right" },
  { title: "RETRYING", cell: ({ depth }) => count(depth.retrying, "magenta"), align: "right" },
  { title: "SCHEDULED", cell: ({ depth }) => count(depth.scheduled, "cyan"), align: "right" },
  { title: "PARKED", cell: ({ depth }) => count(depth.parked, "gray"), align: "right" },
  { title: "DEAD", cell: ({ depth }) => count(depth.dead, "red"), align: "right" },
];
