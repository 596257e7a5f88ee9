import { closest } from "../model/names.ts";
import { isPattern } from "../model/name-pattern.ts";
import type { Context } from "./context.ts";
import { inspecting } from "./inspecting.ts";
import { say } from "./output.ts";

type Named = "queue" | "kind" | "dependency";

const unknown: Record<Named, string> = {
  queue: "No job and no worker uses queue",
  kind: "No job and no worker has kind",
  dependency: "No code and no setting declares dependency",
};

/** Controls may be set before the first job comes, so an unknown name is no error. */
export async function warnOfMisspelling(context: Context, what: Named, name: string): Promise<void> {
  if (isPattern(name)) return;
  const names = await namesOf(context, what);
  if (!names.includes(name)) context.out.warn(say`${unknown[what]} ${name}${meant(name, names)}`);
}

/** The end of a sentence about a name that does not exist. */
export function meant(name: string, names: readonly string[]): string {
  const suggestion = closest(name, names);
  return suggestion === undefined ? "." : `; did you mean ${suggestion}?`;
}

async function namesOf(context: Context, what: Named): Promise<string[]> {
  if (what === "dependency")
    return (await (await context.client()).dependencies.list()).map((one) => one.name);
  return await inspecting(context, async (inspector) =>
    what === "queue"
      ? (await inspector.health()).queues.map(({ queue }) => queue)
      : (await inspector.kinds()).map(({ kind }) => kind),
  );
}
