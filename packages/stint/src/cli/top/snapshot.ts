import type { DeadGroups, Health, Inspector, KindView, SlowJob, WorkerView } from "../../inspect/types.ts";
import type { Screen } from "./view.ts";

/** The data of one screen at one moment. Data of other screens is not read. */
export type Snapshot = {
  readonly health: Health;
  readonly kinds: readonly KindView[];
  readonly slow: readonly SlowJob[];
  readonly workers: readonly WorkerView[];
  readonly dead: DeadGroups;
};

const noDead: DeadGroups = { groups: [], others: 0, of: { count: 0, capped: false } };

export async function take(inspector: Inspector, screen: Screen): Promise<Snapshot> {
  const [health, kinds, slow, workers, dead] = await Promise.all([
    inspector.health(),
    screen === "queue" ? inspector.kinds() : [],
    screen === "queue" || screen === "slow" ? inspector.slow() : [],
    screen === "workers" ? inspector.workers() : [],
    screen === "dead" ? inspector.deadGroups() : noDead,
  ]);
  return { health, kinds, slow, workers, dead };
}
