/** One actor: a process that uses one system in one config and runs the tasks it receives by message, also several at once. */
import { NotOfferedError } from "../core/types.ts";
import { importSystem } from "../systems/index.ts";
import type { Context } from "./context.ts";
import { Runs } from "./context.ts";
import type { ActorSettings, FromActor, ToActor } from "./messages.ts";
import { tasks } from "./tasks/index.ts";

const { system, config, stores } = JSON.parse(process.argv[2] ?? "{}") as ActorSettings;

// The parent process has exited.
process.on("disconnect", () => process.exit());
try {
  const startedMs = performance.now();
  const { open } = await importSystem(system);
  const imported = performance.now();
  const context: Context = { client: await open(stores, config), stores, runs: new Runs() };
  process.on("message", (message: ToActor) => void runTask(context, message));
  send({ type: "ready", importMs: imported - startedMs, openMs: performance.now() - imported });
} catch (error) {
  fail(undefined, error);
}

async function runTask(context: Context, { id, task, input }: ToActor): Promise<void> {
  try {
    const output = await (tasks[task] as (context: Context, input: unknown) => Promise<unknown>)(
      context,
      input,
    );
    send({ type: "done", id, output });
  } catch (error) {
    fail(id, error);
  }
}

function fail(id: number | undefined, error: unknown): void {
  const message = error instanceof Error ? error.message || error.name : String(error);
  send({ type: "failed", id, message, notOffered: error instanceof NotOfferedError });
}

function send(message: FromActor): void {
  process.send?.(message);
}
