import { fork, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import { nowMs } from "../core/clock.ts";
import type { NodeVersion } from "../core/scenario.ts";
import { NotOfferedError } from "../core/types.ts";
import { peersVariable } from "../systems/load-peer.ts";
import type { ActorSettings, FromActor, ToActor } from "./messages.ts";
import type { TaskInput, TaskName, TaskOutput } from "./tasks/index.ts";

export type SpawnOptions = {
  /** Default: the Node version of the system (peers: 24). */
  node?: NodeVersion;
  /** Node options such as `--expose-gc`. */
  execArgv?: readonly string[];
};

/** A child process that uses one system. */
export type Actor = {
  readonly pid: number;
  /** Time from the fork until the actor is ready, and the parts of it spent importing and opening the system. */
  readonly cold: { readonly readyMs: number; readonly importMs: number; readonly openMs: number };
  /** Run a task in the actor and return its output. */
  call<Name extends TaskName>(task: Name, input?: TaskInput<Name>): Promise<TaskOutput<Name>>;
  /** Kill the process. Resolves when it has exited. */
  kill(signal?: NodeJS.Signals): Promise<void>;
};

export type SpawnInput = ActorSettings & {
  execPath: string;
  execArgv: readonly string[];
  peers: URL;
  /** The compiled `actor/main.js`. */
  entry: URL;
};

type Call = { resolve: (output: unknown) => void; reject: (error: Error) => void };

/** Start an actor and wait until it is connected. */
export async function spawnActor(input: SpawnInput): Promise<Actor> {
  const { system, config, stores, execPath, execArgv, peers, entry } = input;
  const forkedMs = nowMs();
  const child = fork(fileURLToPath(entry), [JSON.stringify({ system, config, stores })], {
    execPath,
    execArgv: [...execArgv],
    env: { ...process.env, [peersVariable]: peers.href, NODE_OPTIONS: "", NO_COLOR: "1" },
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  const calls = new Calls(child, system);
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const kill = async (signal: NodeJS.Signals = "SIGKILL"): Promise<void> => {
    child.kill(signal);
    await exited;
  };
  try {
    const ready = await calls.ready;
    return {
      pid: child.pid ?? 0,
      cold: { readyMs: nowMs() - forkedMs, importMs: ready.importMs, openMs: ready.openMs },
      call: async (task, taskInput) => (await calls.send(task, taskInput)) as never,
      kill,
    };
  } catch (error) {
    await kill();
    throw error;
  }
}

/** Pending calls to one child, and its stderr, which explains an unexpected exit. */
class Calls {
  readonly ready: Promise<Extract<FromActor, { type: "ready" }>>;
  readonly #child: ChildProcess;
  readonly #open = new Map<number, Call>();
  #lastId = 0;
  #stderr = "";

  constructor(child: ChildProcess, system: string) {
    this.#child = child;
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-2000);
    });
    this.ready = new Promise((resolve, reject) => {
      child.on("message", (message: FromActor) => {
        if (message.type === "ready") resolve(message);
        else if (message.type === "done") this.#take(message.id)?.resolve(message.output);
        else {
          const error = message.notOffered
            ? new NotOfferedError(message.message)
            : new Error(message.message);
          if (message.id === undefined) reject(error);
          else this.#take(message.id)?.reject(error);
        }
      });
      child.once("error", reject);
      child.once("exit", (code, signal) => {
        const words = this.#stderr.trim().split("\n").slice(-12).join(" ");
        const error = new Error(`a process of ${system} ended (${signal ?? code})${words && `: ${words}`}`);
        reject(error);
        for (const call of this.#open.values()) call.reject(error);
        this.#open.clear();
      });
    });
    // A caller may be waiting for the exit only.
    this.ready.catch(() => undefined);
  }

  async send(task: TaskName, input: unknown): Promise<unknown> {
    const message: ToActor = { id: ++this.#lastId, task, input };
    return await new Promise((resolve, reject) => {
      this.#open.set(message.id, { resolve, reject });
      this.#child.send(message, (error) => {
        if (error !== null) this.#take(message.id)?.reject(error);
      });
    });
  }

  #take(id: number): Call | undefined {
    const call = this.#open.get(id);
    this.#open.delete(id);
    return call;
  }
}
