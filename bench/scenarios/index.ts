import type { Scenario } from "../core/scenario.ts";
import { buckets } from "./buckets.ts";
import { cold } from "./cold.ts";
import { crash } from "./crash.ts";
import { drain } from "./drain.ts";
import { enqueueTx } from "./enqueue-tx.ts";
import { enqueue } from "./enqueue.ts";
import { everyday } from "./everyday.ts";
import { observabilityCost } from "./observability-cost.ts";
import { noisyNeighbour } from "./noisy-neighbour.ts";
import { fairness } from "./fairness.ts";
import { flows } from "./flows.ts";
import { growth } from "./growth.ts";
import { horizon } from "./horizon.ts";
import { idle } from "./idle.ts";
import { limits } from "./limits.ts";
import { memory } from "./memory.ts";
import { pickup } from "./pickup.ts";
import { steps } from "./steps.ts";
import { sustained } from "./sustained.ts";

/** Every scenario, in the order they run. */
export const scenarios: readonly Scenario[] = [
  enqueue,
  enqueueTx,
  drain,
  everyday,
  sustained,
  pickup,
  growth,
  horizon,
  idle,
  noisyNeighbour,
  memory,
  cold,
  crash,
  observabilityCost,
  steps,
  flows,
  fairness,
  limits,
  buckets,
];
