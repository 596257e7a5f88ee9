/**
 * The rescue of a killed worker's job.
 *
 * A helper process serves the agent queue. It is killed with `kill -9` in the middle of its first job, so it cannot release
 * the job. Its lease is no longer renewed. When the lease has run out, the main worker rescues the job and runs it. Then
 * another helper starts, which you can kill.
 */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Worker } from "stint";
import type { Message } from "./doomed-worker.ts";
import type { Feed } from "./feed.ts";
import type { Watch } from "./watch.ts";

const entry = fileURLToPath(new URL("./doomed-worker.ts", import.meta.url));
const letItWorkForMs = 700;
const stopDeadlineMs = 13_000;

type Held = { readonly id: string; readonly kind: string };

export class RescueStory {
  readonly #url: string;
  readonly #feed: Feed;
  readonly #watch: Watch;
  #child: ChildProcess | undefined;
  /** The job that the helper runs. */
  #held: Held | undefined;
  /** The job of a killed helper, until it has run again. */
  #orphan: Held | undefined;
  /** The id of the helper's worker. */
  #helper = "helper";
  #killed = false;
  #stopping = false;
  #end: () => void = () => undefined;

  /** Resolves when a job has been rescued and has run again. */
  readonly ended = new Promise<void>((resolve) => {
    this.#end = resolve;
  });

  constructor(options: { url: string; feed: Feed; watch: Watch; worker: Worker }) {
    this.#url = options.url;
    this.#feed = options.feed;
    this.#watch = options.watch;
    this.#follow(options.worker);
  }

  /** One line for the screen. */
  get line(): string {
    if (this.#orphan !== undefined) return `the helper is gone; ${name(this.#orphan)} is being rescued`;
    if (this.#child === undefined) return "no helper";
    const doing = this.#held === undefined ? "waits for work" : `runs ${name(this.#held)}`;
    const invitation = this.#killed ? ` — try: kill -9 ${this.#child.pid}` : "";
    return `helper (pid ${this.#child.pid}) ${doing}${invitation}`;
  }

  start(): void {
    const child = fork(entry, [], {
      // Detached, so that Ctrl-C in the terminal reaches only the demo, which then stops its helper.
      detached: true,
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      env: { ...process.env, DATABASE_URL: this.#url },
    });
    this.#child = child;
    this.#held = undefined;
    let started = false;
    child.on("message", (message: Message) => {
      started ||= message.type === "started";
      this.#onMessage(child, message);
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#feed.add("bad", `helper: ${text.trim().split("\n")[0]}`);
    });
    child.once("exit", () => this.#ended(started));
  }

  /** The helper drains like any worker. A second call sends a second SIGTERM, which aborts its handlers. */
  async stop(): Promise<void> {
    this.#stopping = true;
    const child = this.#child;
    if (child === undefined) return;
    child.kill("SIGTERM");
    // A process that was stopped with SIGSTOP does not react to SIGTERM.
    const lastResort = setTimeout(() => child.kill("SIGKILL"), stopDeadlineMs);
    await once(child, "exit");
    clearTimeout(lastResort);
  }

  #onMessage(child: ChildProcess, message: Message): void {
    if (message.type === "started") {
      this.#helper = message.worker;
      this.#feed.add("plain", `worker ${message.worker} joins in, with one more slot for agent jobs`);
    } else if (message.type === "claimed") {
      this.#held = message;
      if (!this.#killed) setTimeout(() => this.#kill(child, message), letItWorkForMs);
    } else if (message.type === "leaseLost") {
      this.#held = undefined;
      this.#feed.add(
        "good",
        `the helper finished ${name(message)} after its lease had run out; its outcome was refused`,
      );
    } else {
      this.#held = undefined;
      if (message.state === "succeeded") this.#watch.countSuccess(message.kind);
    }
  }

  #kill(child: ChildProcess, job: Held): void {
    if (this.#killed || this.#stopping || this.#held !== job) return;
    this.#killed = true;
    child.kill("SIGKILL");
  }

  #ended(started: boolean): void {
    const pid = this.#child?.pid;
    this.#child = undefined;
    if (this.#stopping) return;
    if (!started) {
      this.#feed.add("bad", `helper ${pid} exited before it started; the demo continues without one`);
      return;
    }
    this.#orphan = this.#held;
    if (this.#orphan === undefined) {
      this.#feed.add("bad", `worker ${this.#helper} was killed between two jobs; there is nothing to rescue`);
      this.start();
      return;
    }
    const what = `while running ${name(this.#orphan)}`;
    this.#feed.add(
      "bad",
      `worker ${this.#helper} was killed (kill -9) ${what}; its lease runs out within 3 s`,
    );
  }

  #follow(worker: Worker): void {
    worker.on("rescued", ({ job, kind, worker: dead, state }) => {
      const what = name({ id: job, kind });
      // If the helper has not exited, it was stopped (SIGSTOP), and this event is the first to name its job.
      this.#orphan ??= { id: job, kind };
      this.#feed.add(
        "good",
        `${dead} stopped responding and its lease ran out: ${what} rescued, ${state}, no attempt spent`,
      );
    });
    worker.on("claimed", ({ jobs }) => {
      const again = jobs.find(({ id }) => id === this.#orphan?.id);
      if (again !== undefined) this.#feed.add("good", `${name(again)} is running again, on ${worker.id}`);
    });
    worker.on("settled", ({ id, kind, state }) => {
      if (id !== this.#orphan?.id || state !== "succeeded") return;
      this.#feed.add(
        "good",
        `${name({ id, kind })} ${state} on ${worker.id}: the crash cost time but no attempt`,
      );
      this.#orphan = undefined;
      this.#end();
      if (!this.#stopping && this.#child === undefined) this.start();
    });
  }
}

/** Jobs are identified by the end of the id; its start is the time. */
function name({ id, kind }: Held): string {
  return `${kind} …${id.slice(-6)}`;
}
