import { emitKeypressEvents } from "node:readline";
import type { Key } from "./view.ts";

const enter = "\u001b[?1049h\u001b[?25l\u001b[?7l";
const leave = "\u001b[?7h\u001b[?25h\u001b[?1049l";

export type Terminal = {
  size(): { columns: number; rows: number };
  /** Draw a whole screen over the previous one. */
  write(lines: readonly string[]): void;
  /** Restore the terminal. May be called twice. */
  restore(): void;
};

export type TerminalEvents = { onKey: (key: Key) => void; onResize: () => void };

/**
 * Switch the terminal to its alternate screen and raw mode. It is restored on every exit, also after an error or a
 * `process.exit` elsewhere: a shell left in raw mode without a cursor is unusable.
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
    // Otherwise the process would keep waiting for keys.
    stdin.pause();
    stdout.write(leave);
  };
  process.once("exit", restore);
  // Restored before the error is printed, which would otherwise be lost with the alternate screen.
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
      // Each line clears the rest of the old one, which avoids flicker.
      const text = lines.map((line) => `${line}\u001b[K`).join("\r\n");
      if (taken) stdout.write(`\u001b[H${text}\u001b[J`);
    },
    restore,
  };
}
