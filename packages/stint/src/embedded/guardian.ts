import { spawn } from "node:child_process";
import type { Socket } from "node:net";
import { createInterface } from "node:readline";
import { untilGone } from "./processes.ts";
import { spawnUser, type User } from "./user.ts";

/**
 * Runs one program that must not outlive us, even if we are killed with -9.
 *
 * A shell stands between us and the program, in a session of its own, holding a pipe from us. The kernel
 * closes the pipe however we end; the shell then ends the program and removes a temporary data directory. It is a shell
 * and not Node so that `killall -9 node` does not take it along.
 *
 * Signals from the terminal reach neither (own session), and the shell ignores those sent to it: on Ctrl-C
 * we drain first, and the database must be there until we are done.
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
  /** Let the guardian go. Call it only after `ended`, when there is nothing left to remove. */
  release(): void;
  /** Whether waiting for the program keeps this process alive. */
  hold(alive: boolean): void;
};

export type GuardOptions = {
  user: User | undefined;
  /** File descriptor for all the program prints. */
  log: number;
  /** Folder to remove if we die. */
  remove?: string | undefined;
  /** Sent to the program if we die. */
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
      // Nothing of ours leaks in: a PGPORT or PGOPTIONS from the user's shell would change the server.
      env: { PATH: "/usr/bin:/bin:/usr/sbin:/sbin", LC_ALL: "C", TZ: "UTC" },
      ...spawnUser(options.user),
    },
  );
  // Pipes are sockets to Node; its types do not say so.
  const [stdin, stdout] = child.stdio as unknown as [Socket, Socket];
  // A guardian that is gone must not take us along by a write to its pipe.
  stdin.on("error", () => undefined);
  const lines = createInterface({ input: stdout });

  let pid: number | undefined;
  const ended = new Promise<number>((resolve) => {
    stdout.on("close", () => {
      // The guardian itself was killed, so nobody is left to tell us how the program ended.
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
