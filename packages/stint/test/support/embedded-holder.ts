import { spawn, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import type { Embedded, EmbeddedOptions } from "#stint/embedded/embedded.js";
import { until } from "./until.ts";

type Report = {
  progress?: string;
  started?: Omit<Embedded, "stop"> & { uid: number };
  interrupted?: boolean;
  stopped?: boolean;
};

/** A separate Node process, leading its own process group, that holds an embedded Postgres. */
export type Holder = {
  process: ChildProcess;
  /** Waits for a report that contains this text. */
  reported<Name extends keyof Report>(name: Name): Promise<NonNullable<Report[Name]>>;
  /** Resolves when the process has ended. */
  ended: Promise<void>;
};

const fixture = fileURLToPath(new URL("../fixtures/embedded-holder.mjs", import.meta.url));

export function holdEmbedded(
  options: EmbeddedOptions & { uid?: number } = {},
  { afterwards = "wait", env = {} }: { afterwards?: "wait" | "forget"; env?: NodeJS.ProcessEnv } = {},
): Holder {
  const child = spawn(process.execPath, [fixture, JSON.stringify(options), afterwards], {
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...env },
  });
  onTestFinished(() => {
    child.kill("SIGKILL");
  });

  let out = "";
  let err = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text));
  const ended = new Promise<void>((resolve) => {
    child.once("close", () => resolve());
  });

  return {
    process: child,
    ended,
    async reported(name) {
      return until(
        () => {
          const reports = out.split("\n").slice(0, -1);
          return reports
            .map((line) => (JSON.parse(line) as Report)[name])
            .find((value) => value !== undefined)!;
        },
        { message: `the holder reports "${name}"` },
      ).catch((error: Error) => {
        throw new Error(`${error.message}\n${out}${err}`, { cause: error });
      });
    },
  };
}
