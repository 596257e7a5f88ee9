/** The live display: a table redrawn in place on a terminal, plain lines anywhere else. */
import type { Entry, Feed } from "./feed.ts";
import { ageOf, drawTable, timeOf, type Frame } from "./table.ts";
import type { QueueView } from "./view.ts";

export type Screen = {
  /** Replaces "Ctrl-C drains". */
  status: string;
  /** Draw the last frame and restore the terminal. */
  close(): void;
};

type Source = {
  readonly title: string;
  readonly feed: Feed;
  readonly look: () => Promise<QueueView[]>;
  readonly helper: () => string;
};

export function openScreen(source: Source): Screen {
  const isTerminal = process.stdout.isTTY && process.env["TERM"] !== "dumb";
  return isTerminal ? openTable(source) : openLines(source);
}

const escape = "\u001B[";
// The alternate screen keeps the previous content of the terminal; without wrapping, a line cannot become two.
const enter = `${escape}?1049h${escape}?25l${escape}?7l`;
const leave = `${escape}?7h${escape}?25h${escape}?1049l`;
const home = `${escape}H`;
const clearLine = `${escape}K`;
const clearBelow = `${escape}J`;

const redrawEveryMs = 250;

function openTable({ title, feed, look, helper }: Source): Screen {
  const { stdout } = process;
  const color = process.env["NO_COLOR"] === undefined || process.env["NO_COLOR"] === "";
  const startedAt = Date.now();
  let queues: QueueView[] = [];

  const screen = { status: "Ctrl-C drains", close };
  const draw = (): void => {
    const status = `${elapsed(startedAt)} · ${screen.status}`;
    const frame: Frame = { title, status, queues, helper: helper(), entries: feed.entries };
    // The last column stays empty: clearing the rest of a full line would erase its last character.
    const lines = drawTable(frame, { columns: stdout.columns - 1, rows: stdout.rows }, color);
    // One write over the old frame, without clearing it first, avoids flicker.
    stdout.write(`${home}${lines.map((line) => `${line}${clearLine}`).join("\r\n")}${clearBelow}`);
  };
  const restore = (): boolean => stdout.write(leave);

  stdout.write(enter);
  // Restores the cursor at every exit except SIGKILL.
  process.once("exit", restore);
  stdout.on("resize", draw);
  const stop = repeat(redrawEveryMs, async () => {
    queues = await look().catch(() => queues);
    draw();
  });

  function close(): void {
    stop();
    stdout.off("resize", draw);
    process.off("exit", restore);
    restore();
  }
  return screen;
}

const lineEveryMs = 2_000;

function openLines({ feed, look }: Source): Screen {
  const tellNews = (): void => {
    for (const entry of feed.unread()) print(eventLine(entry));
  };
  const stopNews = repeat(redrawEveryMs, async () => tellNews());
  const stopCounts = repeat(lineEveryMs, async () => {
    const queues = await look();
    tellNews();
    print(`${timeOf(new Date())}  ${queues.map(queueWords).join(" | ")}`);
  });
  return {
    status: "",
    close() {
      stopNews();
      stopCounts();
      tellNews();
    },
  };
}

function eventLine({ at, text, times }: Entry): string {
  return `${timeOf(at)}    ${text}${times > 1 ? ` ×${times}` : ""}`;
}

/** Zeros are left out, because the line is for people. */
function queueWords(view: QueueView): string {
  const { queue, busy, slots, ready, retrying, dead, oldestMs, rate } = view;
  const words = [`${queue} ${busy}/${slots}`];
  if (ready > 0) words.push(`${ready} ready (oldest ${ageOf(oldestMs)})`);
  if (retrying > 0) words.push(`${retrying} retrying`);
  if (dead > 0) words.push(`${dead} dead`);
  return [...words, `${rate.toFixed(1)}/s`].join(" ");
}

/** Repeats `act` without overlap. Returns a function that stops it. */
function repeat(everyMs: number, act: () => Promise<void>): () => void {
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  const tick = async (): Promise<void> => {
    // The worker handles database outages; the screen only skips a frame.
    await act().catch(() => undefined);
    if (!stopped) timer = setTimeout(() => void tick(), everyMs);
  };
  void tick();
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}

function elapsed(since: number): string {
  const seconds = Math.floor((Date.now() - since) / 1_000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
