import { emitKeypressEvents } from "node:readline";
import type { Key } from "./view.ts";

const enter = "\u001b[?1049h\u001b[?25l\u001b[?7l";
const leave = "\u001b[?7h\u001b[?25h\u001b[?1049l";

export type Terminal = {
  size(): { columns: number; rows: number };
  /** Write a whole screen over the last one. */
  write(lines: readonly string[]): void;
  /** Give the terminal back as it was. May be called twice. */
  restore(): void;
};

export type TerminalEvents = { onKey: (key: Key) => void; onResize: () => void };

/**
 * Take the terminal: its other screen, and keys as they come. It is given back on every way out, also when the process ends
 * by an error or by a `process.exit` elsewhere: a shell left in raw mode without a cursor is unusable.
 */
export function takeTerminal({ onKey, onResize }: TerminalEvents): Terminal {
  const { stdin, stdout } = process;
  let taken = true;
  const keyPressed = (_: string | undefined, key: Key): void => onKey(key);
  const restore = (): void => {
    if (!taken) return;
    taken = false;
    stdin.off("keypress", keyPressed);
    stdout.off("resize", onResize);
    process.off("exit", restore);
    process.off("uncaughtExceptionMonitor", restore);
    if (stdin.isTTY) stdin.setRawMode(false);
    // Else the process would go on waiting for keys.
    stdin.pause();
    stdout.write(leave);
  };
  process.once("exit", restore);
  // Before the error is printed, which would otherwise be lost with the other screen.
  process.once("uncaughtExceptionMonitor", restore);
  emitKeypressEvents(stdin, undefined);
  if (stdin.isTTY) stdin.setRawMode(true);
  stdin.on("keypress", keyPressed);
  stdin.resume();
  stdout.on("resize", onResize);
  stdout.write(enter);
  return {
    size: () => ({ columns: stdout.columns || 80, rows: stdout.rows || 24 }),
    write(lines) {
      // Each line clears what is left of the old one, so nothing flickers.
      const text = lines.map((line) => `${line}\u001b[K`).join("\r\n");
      if (taken) stdout.write(`\u001b[H${text}\u001b[J`);
    },
    restore,
  };
}
