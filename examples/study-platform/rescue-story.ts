/**
 * The story of a killed worker.
 *
 * A helper process joins in at the agent queue. In the middle of its first job it gets `kill -9`. It cannot say
 * goodbye; but nobody renews its lease any more, and when that has run out the main worker takes the job back and
 * runs it. Then another helper starts, which is yours to kill.
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
const patienceMs = 13_000;

type Held = { readonly id: string; readonly kind: string };

export class RescueStory {
  readonly #url: string;
  readonly #feed: Feed;
  readonly #watch: Watch;
  #child: ChildProcess | undefined;
  /** The job in the helper's hands. */
  #held: Held | undefined;
  /** The job whose helper is dead, until it has run again. */
  #orphan: Held | undefined;
  /** The id of the worker in it. */
  #helper = "helper";
  #killed = false;
  #stopping = false;
  #end: () => void = () => undefined;

  /** Resolves when a job has been rescued and has run again. */
  readonly told = new Promise<void>((resolve) => {
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
      // Ctrl-C in the terminal is for the demo, which then tells its helper.
      detached: true,
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      env: { ...process.env, DATABASE_URL: this.#url },
    });
    this.#child = child;
    this.#held = undefined;
    let started = false;
    child.on("message", (message: Message) => {
      started ||= message.type === "started";
      this.#hear(child, message);
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#feed.add("bad", `helper: ${text.trim().split("\n")[0]}`);
    });
    child.once("exit", () => this.#ended(started));
  }

  /** The helper drains like any worker. Asked twice, it hurries. */
  async stop(): Promise<void> {
    this.#stopping = true;
    const child = this.#child;
    if (child === undefined) return;
    child.kill("SIGTERM");
    // One that was stopped with SIGSTOP does not hear.
    const lastResort = setTimeout(() => child.kill("SIGKILL"), patienceMs);
    await once(child, "exit");
    clearTimeout(lastResort);
  }

  #hear(child: ChildProcess, message: Message): void {
    if (message.type === "started") {
      this.#helper = message.worker;
      this.#feed.add("plain", `worker ${message.worker} joins in, with one more slot for agent jobs`);
    } else if (message.type === "claimed") {
      this.#held = message;
      if (!this.#killed) setTimeout(() => this.#kill(child, message), letItWorkForMs);
    } else if (message.type === "leaseLost") {
      this.#held = undefined;
      this.#feed.add("good", `the helper came back to ${name(message)} too late; its outcome was refused`);
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
      this.#feed.add("bad", `helper ${pid} ended before it began; the demo goes on without one`);
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
      // Unless its end was noticed, it is not dead but stopped, and the job is told of here for the first time.
      this.#orphan ??= { id: job, kind };
      this.#feed.add(
        "good",
        `${dead} is silent and its lease ran out: ${what} rescued, ${state}, no attempt spent`,
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
        `${name({ id, kind })} ${state} on ${worker.id}: the crash cost nothing but time`,
      );
      this.#orphan = undefined;
      this.#end();
      if (!this.#stopping && this.#child === undefined) this.start();
    });
  }
}

/** The end of an id tells jobs apart; its beginning is the time. */
function name({ id, kind }: Held): string {
  return `${kind} …${id.slice(-6)}`;
}
