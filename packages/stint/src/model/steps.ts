import { InvalidOptionError } from "../errors.ts";
import { checkText } from "./names.ts";

/** What a handler remembers: the result of a function, a sleep, or a received signal. */
export type StepType = "step" | "sleep" | "signal";

/** The most remembered parts of one job. All of them are read when the job runs again; a longer loop keeps a checkpoint. */
export const mostSteps = 10_000;

export function checkStepName(name: unknown): string {
  return checkText(name, "step(name)", { max: 256 });
}

/** Sleeps and waits have no name of their own: they are numbered in the order of the handler. */
export function waitName(type: "sleep" | "signal", what: string, count: number): string {
  return `${type === "sleep" ? "sleep" : `signal ${what}`}${count === 1 ? "" : ` #${count}`}`;
}

export function tooManySteps(job: string): InvalidOptionError {
  return new InvalidOptionError(
    "step",
    `job ${job} has ${mostSteps.toLocaleString("en")} steps, which is the limit. Use ctx.checkpoint(…) for long loops, or several jobs`,
  );
}
