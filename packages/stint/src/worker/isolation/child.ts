/**
 * The program of the thread or process in which an isolated handler runs. It has no connection to the database and no lease: the worker has
 * both. Built into isolated-child-code.js by scripts/embed.mjs.
 */
import { createRequire } from "node:module";
import type * as Jiti from "jiti";
import { fileURLToPath } from "node:url";
import v8 from "node:v8";
import { isMainThread, parentPort, Worker as Thread } from "node:worker_threads";
import { describe } from "../../model/describe.ts";
import { isOutcome } from "../../model/outcome.ts";
import { callHandler } from "../call-handler.ts";
import type { Handler } from "../handler.ts";
import { ChildContext, refOf } from "./child-context.ts";
import type { ChildMessage, HandlerEnd, ToChild } from "./messages.ts";
import { toSent } from "./sent-error.ts";

/** Kept here: code of the handler may replace them. */
const post = parentPort === null ? process.send?.bind(process) : parentPort.postMessage.bind(parentPort);
const exit = process.exit.bind(process);

let token = "";
let handler: Handler | undefined;
/** The memory in use once the handler was loaded. */
let loadedBytes = 0;
let current: { readonly attempt: number; readonly context: ChildContext } | undefined;

function send(message: ChildMessage): void {
  // Throws for a value that cannot be copied. A closed channel is reported by the worker's end of it.
  post?.({ ...message, token });
}

function receive(message: ToChild): void {
  if (message.type === "load") return void load(message);
  if (message.type === "run") return void run(message);
  if (current?.attempt !== message.attempt) return;
  const { context } = current;
  if (message.type === "abort") context.abort(message.reason);
  else if (message.type === "reply") context.reply(message.call, message.result);
  else void context.work(message.call);
}

async function load(message: ToChild & { type: "load" }): Promise<void> {
  token = message.token;
  if (isMainThread) endWithParent(message.parentPid);
  try {
    const found = await importDefault(message.file);
    const rule = refusalOf(found, message.kind);
    if (rule !== undefined) return send({ type: "refused", rule });
    handler = found as Handler;
    loadedBytes = bytesInUse();
    send({ type: "loaded" });
  } catch (error) {
    send({ type: "refused", rule: "could not be loaded", error: toSent(error) });
  }
}

async function importDefault(file: string): Promise<unknown> {
  const module = await importModule(file);
  const found: unknown = module.default;
  // A CommonJS module that was compiled from an ES module has its default export in a property.
  return (found as { __esModule?: boolean } | null)?.__esModule === true
    ? (found as { default?: unknown }).default
    : found;
}

async function importModule(file: string): Promise<{ default?: unknown }> {
  try {
    return (await import(file)) as { default?: unknown };
  } catch (error) {
    if ((error as { code?: unknown } | null)?.code !== "ERR_UNKNOWN_FILE_EXTENSION") throw error;
    // TypeScript, and this version of Node does not load it: the CLI's loader does.
    const path = fileURLToPath(file);
    const fromStint = createRequire(createRequire(path).resolve("stint/package.json"));
    const { createJiti } = fromStint("jiti") as typeof Jiti;
    return await createJiti(path, { fsCache: false, nativeModules: ["stint"] }).import(path);
  }
}

/** Why the default export of the file cannot be used, if it cannot. */
function refusalOf(found: unknown, kind: string): string | undefined {
  const { definition, run: call, policy, batch, isolate } = (found ?? {}) as Partial<Handler>;
  if (typeof definition?.kind !== "string" || typeof call !== "function" || typeof policy !== "object")
    return `must have a default export made by handle(${kind}, fn), got ${describe(found)}`;
  if (definition.kind !== kind) return `has the handler of kind "${definition.kind}", not of "${kind}"`;
  if (isolate !== undefined) return "must have the function of the handler, not the name of another file";
  const names = Object.keys(policy) as (keyof typeof policy)[];
  const own = names.filter((name) => policy[name] !== definition.policy[name]);
  return batch === undefined && own.length === 0
    ? undefined
    : "gives options to handle(…) that would have no effect there. Give them where the worker calls handle(…)";
}

async function run(message: ToChild & { type: "run" }): Promise<void> {
  const { attempt } = message;
  const own = new ChildContext(message, send);
  current = { attempt, context: own };
  send({ type: "began", attempt });
  const end = await call(own);
  const memoryBytes = bytesInUse() - loadedBytes;
  try {
    send({ type: "ended", attempt, end, memoryBytes });
  } catch {
    send({
      type: "ended",
      attempt,
      end: { unsendable: describe("value" in end ? end.value : end) },
      memoryBytes,
    });
  }
}

function bytesInUse(): number {
  return isMainThread ? process.memoryUsage.rss() : v8.getHeapStatistics().used_heap_size;
}

async function call(own: ChildContext): Promise<HandlerEnd> {
  try {
    const { context } = own;
    const { run: callIt, middlewares = [] } = handler as Handler;
    const value = await callHandler(
      () => callIt(context as never),
      middlewares,
      context,
      (enter) => enter(),
    );
    await own.ended();
    return isOutcome(value) ? { outcome: { ...value } } : { value };
  } catch (error) {
    await own.ended().catch(() => undefined);
    return { error: toSent(error, refOf(error)) };
  }
}

/** The worker is gone, and with it the lease: nothing that this process does may count any more. */
function endWithParent(parentPid: number): void {
  // The process leads a group: what its handler has started ends with it.
  const all = process.platform === "win32" ? process.pid : -process.pid;
  process.on("disconnect", () => {
    process.kill(all, "SIGKILL");
    exit(1);
  });
  process.disconnect = () => {
    throw new Error(
      "An isolated handler must not call process.disconnect(): the worker would not get its result.",
    );
  };
  // A terminal and some platforms signal every process. The worker decides when this one ends.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => undefined);
  // A handler that spins never sees the disconnect. A thread does.
  const watch = `setInterval(() => { if (process.ppid !== ${parentPid}) process.kill(${all}, "SIGKILL"); }, 500);`;
  new Thread(watch, { eval: true, stdin: false }).unref();
}

if (parentPort === null) process.on("message", receive);
else parentPort.on("message", receive);
