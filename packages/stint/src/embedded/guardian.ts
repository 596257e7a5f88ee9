import { spawn } from "node:child_process";
import type { Socket } from "node:net";
import { createInterface } from "node:readline";
import { untilGone } from "./processes.ts";
import { spawnUser, type User } from "./user.ts";

/**
 * Runs a program that must end with this process, even after SIGKILL.
 *
 * The program is the child of a shell, which runs in its own session and holds a pipe from this process. The kernel closes the
 * pipe when this process ends for any reason. The shell then ends the program and removes a temporary data directory. It is a
 * shell and not Node, so that `killall -9 node` does not end it.
 *
 * Signals of the terminal reach neither (own session), and the shell ignores signals sent to it. After Ctrl-C a worker drains
 * first, and the database must be available until it is done.
 */
const script = `
trap '' HUP INT TERM PIPE
remove=$1 signal=$2; shift 2
exec 3<&0
"$@" </dev/null >&2 3<&- &
program=$!
echo "started $program"
(
  read -r word <&3 && exit 0
  kill -s "$signal" $program
  tries=0
  while [ $tries -lt 50 ]; do sleep 0.2; kill -s 0 $program || exit 3; tries=$((tries + 1)); done
  kill -s QUIT $program
  sleep 5
  kill -s KILL $program
  exit 3
) >/dev/null 2>&1 &
watcher=$!
wait $program
echo "ended $?"
wait $watcher
[ $? = 3 ] && [ -n "$remove" ] && rm -rf -- "$remove"
exit 0
`;

export const guardianName = "stint-guardian";

const unknownStatus = -1;

export type Guarded = {
  pid: number;
  /** Resolves with the exit status once the program has ended; 128 + n when signal n ended it. */
  ended: Promise<number>;
  /** Dismiss the guardian. Call this only after `ended`, when nothing is left to remove. */
  release(): void;
  /** Whether waiting for the program keeps this process alive. */
  hold(alive: boolean): void;
};

export type GuardOptions = {
  user: User | undefined;
  /** File descriptor for the program's output. */
  log: number;
  /** Folder to remove if this process ends. */
  remove?: string | undefined;
  /** Signal for the program if this process ends. */
  signal: "INT" | "QUIT";
};

export async function guard(
  program: string,
  args: readonly string[],
  options: GuardOptions,
): Promise<Guarded> {
  const child = spawn(
    "/bin/sh",
    ["-c", script, guardianName, options.remove ?? "", options.signal, program, ...args],
    {
      cwd: "/",
      detached: true,
      stdio: ["pipe", "pipe", options.log],
      // An empty environment: a PGPORT or PGOPTIONS of the user's shell would change the server.
      env: { PATH: "/usr/bin:/bin:/usr/sbin:/sbin", LC_ALL: "C", TZ: "UTC" },
      ...spawnUser(options.user),
    },
  );
  // Node implements pipes as sockets, although its types do not declare it.
  const [stdin, stdout] = child.stdio as unknown as [Socket, Socket];
  // A write to the pipe of a killed guardian must not end this process.
  stdin.on("error", () => undefined);
  const lines = createInterface({ input: stdout });

  let pid: number | undefined;
  const ended = new Promise<number>((resolve) => {
    stdout.on("close", () => {
      // The guardian itself was killed, so the exit status of the program is unknown.
      if (pid !== undefined) void untilGone(pid).then(() => resolve(unknownStatus));
    });
    lines.on("line", (line) => {
      if (line.startsWith("ended ")) resolve(Number(line.slice("ended ".length)));
    });
  });
  pid = await new Promise<number>((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", () => reject(new Error("the guardian ended before it could start the program")));
    lines.once("line", (line) => resolve(Number(line.slice("started ".length))));
  });
  return {
    pid,
    ended,
    release: () => stdin.end("end\n"),
    hold(alive) {
      for (const handle of [child, stdin, stdout]) {
        if (alive) handle.ref();
        else handle.unref();
      }
    },
  };
}
