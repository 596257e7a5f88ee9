import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, realpathSync } from "node:fs";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { onTestFinished, vi } from "vitest";
import { main } from "#stint/cli/main.js";
import { installedPackage } from "../support/built-package.ts";
import type { Fresh } from "../support/fresh.ts";
import { testFolder } from "../support/folder.ts";
import { until } from "../support/until.ts";

export type Ended = { code: number | null; stdout: string; stderr: string };

export type RunOptions = {
  cwd?: string;
  env?: Record<string, string>;
  /** Written to standard input. */
  input?: string;
};

/** A `stint` that runs, as a user would have it in a terminal that is none. */
export type Running = {
  process: ChildProcess;
  /** What it wrote so far, both streams together. */
  text(): string;
  /** Waits until it has written this so many times. */
  wrote(words: string, times?: number): Promise<void>;
  ended: Promise<Ended>;
};

export function start(args: readonly string[], { cwd, env = {}, input = "" }: RunOptions = {}): Running {
  const child = spawn(process.execPath, [binOf(cwd), ...args], {
    cwd,
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  child.stdin.on("error", () => undefined);
  child.stdin.end(input);
  let stdout = "";
  let stderr = "";
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (part: string) => {
    stdout += part;
    text += part;
  });
  child.stderr.setEncoding("utf8").on("data", (part: string) => {
    stderr += part;
    text += part;
  });
  const ended = new Promise<Ended>((resolve) => {
    child.once("close", (code) => resolve({ code, stdout, stderr }));
  });
  return {
    process: child,
    text: () => text,
    async wrote(words, times = 1) {
      await until(() => text.split(words).length > times, { message: `it wrote "${words}" ${times}×` }).catch(
        (error: Error) => {
          throw new Error(`${error.message}\n${text}`, { cause: error });
        },
      );
    },
    ended,
  };
}

/** That of the project in this folder, as `npx stint` would find it. */
function binOf(folder = "."): string {
  const own = join(folder, "node_modules/stint/bin/stint.js");
  return existsSync(own) ? realpathSync(own) : join(installedPackage, "bin/stint.js");
}

/**
 * Run a command to its end, in this process: to start another takes ten times as long as most commands. What a process of its own
 * matters for (signals, streams that stay open, exit) is tested with `start`.
 */
export async function stint(args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  // One after another, for they share the environment, the folder and the streams of this process.
  const ended = lastRun.then(() =>
    options.input === undefined ? runHere(args, options) : start(args, options).ended,
  );
  lastRun = ended.then(
    () => undefined,
    () => undefined,
  );
  return await ended;
}

let lastRun: Promise<unknown> = Promise.resolve();

async function runHere(args: readonly string[], { cwd, env = {} }: RunOptions): Promise<Ended> {
  const { env: ownEnv, exitCode } = process;
  const ownFolder = process.cwd();
  const stdout = capture(process.stdout);
  const stderr = capture(process.stderr);
  try {
    process.env = { PATH: ownEnv["PATH"], HOME: ownEnv["HOME"], ...env };
    process.exitCode = undefined;
    if (cwd !== undefined) process.chdir(cwd);
    const code = await main(args);
    return { code, stdout: stdout.text(), stderr: stderr.text() };
  } finally {
    stdout.end();
    stderr.end();
    process.env = ownEnv;
    process.exitCode = exitCode;
    process.chdir(ownFolder);
  }
}

/** Keep what is written to the stream, instead of writing it, until the end. */
function capture(stream: NodeJS.WriteStream): { text(): string; end(): void } {
  let text = "";
  const spy = vi.spyOn(stream, "write").mockImplementation((part, ...rest) => {
    text += typeof part === "string" ? part : Buffer.from(part).toString();
    const done = rest.find((argument) => typeof argument === "function");
    if (done !== undefined) queueMicrotask(() => done());
    return true;
  });
  return {
    text: () => text,
    end: () => spy.mockRestore(),
  };
}

/** The same on one installation. */
export function stintOn(fresh: Fresh): (...args: readonly string[]) => Promise<Ended> {
  return async (...args) =>
    await stint([...args, "--schema", fresh.schema], { env: { DATABASE_URL: fresh.url } });
}

/** The output of `--json`. */
export function jsonOf({ stdout, stderr }: Ended): unknown {
  try {
    return JSON.parse(stdout) as unknown;
  } catch (error) {
    throw new Error(`not JSON: ${stdout}\n${stderr}`, { cause: error });
  }
}

/**
 * A user's project with these files, in which "stint" can be imported. Tests that start processes in it give it the `builtPackage`; for
 * those that run commands in this process, the library must be the one that is loaded here.
 */
export async function project(files: Record<string, string>, library = installedPackage): Promise<string> {
  const folder = await testFolder();
  await mkdir(join(folder, "node_modules"));
  await symlink(library, join(folder, "node_modules", "stint"));
  await writeFile(join(folder, "package.json"), `{ "type": "module" }`);
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), text);
  }
  return folder;
}
