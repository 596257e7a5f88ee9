import { GoTo } from "../../components/link.tsx";
import type { Column } from "../../components/rows.tsx";

/** The queue of a row, as a link. */
export const queueColumn: Column<{ readonly queue: string }> = {
  title: "Queue",
  head: true,
  sort: ({ queue }) => queue,
  cell: ({ queue }) => (
    <GoTo path="/queues/$queue" params={{ queue }} className="name" title={queue}>
      {queue}
    </GoTo>
  ),
};
