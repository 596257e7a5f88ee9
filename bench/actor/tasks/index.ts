import { enqueue, enqueueBulk, enqueueInTransaction } from "./closed-loop.ts";
import { neighbourLoad } from "./neighbour-load.ts";
import { mixedArrivals } from "./mixed.ts";
import { openLoop, paced } from "./open-loop.ts";
import { stintFill, stintOpenLoop, stintStarts, stintWork } from "./stint.ts";
import { enqueueFlow, enqueueTenants, fill, limit, pending, prepare } from "./store.ts";
import { topUp } from "./top-up.ts";
import { unwatch, watch } from "./watch.ts";
import {
  close,
  latencies,
  numberedLatencies,
  progress,
  usage,
  work,
  workAtRate,
  workFlows,
  workSteps,
} from "./work.ts";

/** The tasks of an actor. A new task is a function `(context, input) => Promise<output>`, both JSON, listed here. */
export const tasks = {
  prepare,
  fill,
  limit,
  pending,
  work,
  workAtRate,
  workSteps,
  workFlows,
  enqueueFlow,
  enqueueTenants,
  progress,
  latencies,
  numberedLatencies,
  usage,
  close,
  enqueue,
  enqueueBulk,
  enqueueInTransaction,
  openLoop,
  paced,
  topUp,
  mixedArrivals,
  neighbourLoad,
  stintWork,
  stintStarts,
  stintOpenLoop,
  stintFill,
  watch,
  unwatch,
};
export type Tasks = typeof tasks;
export type TaskName = keyof Tasks;
export type TaskInput<Name extends TaskName> = Parameters<Tasks[Name]>[1];
export type TaskOutput<Name extends TaskName> = Awaited<ReturnType<Tasks[Name]>>;
