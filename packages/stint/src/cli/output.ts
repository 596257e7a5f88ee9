import { styleText } from "node:util";
import { maskUrl, printable } from "../runtime/mask.ts";

export type Style = Parameters<typeof styleText>[0];

/** A text with a colour. It is made safe before the colour is put on, so it may come from anywhere. */
export type Painted = { readonly text: string; readonly style: Style };

/** What may stand in a line or in a cell of a table. */
export type Piece = string | number | Painted;

export function paint(style: Style, text: string): Painted {
  return { text, style };
}

/** A line: words of ours, and between them pieces from anywhere. */
export type Line = { readonly strings: readonly string[]; readonly pieces: readonly Piece[] };

/** Write a line as it reads: out.line(say`Cancelled ${id}`). */
export function say(strings: TemplateStringsArray, ...pieces: readonly Piece[]): Line {
  return { strings, pieces };
}

/** Text from anywhere as one line that can neither steer the terminal nor show a password. */
export function safe(text: string): string {
  return printable(maskUrl(text));
}

export type OutputOptions = { json?: boolean | undefined; color?: boolean | undefined };

/**
 * The only way to standard output and error in the CLI.
 *
 * Everything that is not written in our own source (names, payloads, errors) passes through `safe`, or is
 * escaped in JSON; a job must not be able to forge what an operator sees.
 */
export class Output {
  readonly json: boolean;
  readonly colour: boolean;
  /** Columns of the terminal; undefined where there is none and nothing need be cut. */
  readonly width: number | undefined;

  constructor({ json = false, color = true }: OutputOptions = {}) {
    this.json = json;
    this.colour = color && wantsColour();
    this.width = process.stdout.isTTY ? process.stdout.columns : undefined;
    // `stint jobs list | head` closes the pipe; unheard, the error would end the process with a stack.
    for (const stream of [process.stdout, process.stderr]) {
      if (stream.listenerCount("error") === 0) stream.on("error", () => undefined);
    }
  }

  /** One line of the output. */
  line(line: Line): void {
    process.stdout.write(`${this.#text(line)}\n`);
  }

  /** A remark beside the output, on standard error. Not for machines: silent with --json. */
  note(line: Line): void {
    if (!this.json) process.stderr.write(`${this.#text(line)}\n`);
  }

  /** Something the reader must know before they trust the output, on standard error; with --json in JSON. */
  warn(line: Line): void {
    const text = this.#text(line);
    const written = this.json ? toJson({ warning: text }) : `${this.dye("Warning", "yellow")}: ${text}`;
    process.stderr.write(`${written}\n`);
  }

  /** One line put together from parts that are safe already. */
  shown(parts: readonly string[], gap: string): void {
    process.stdout.write(`${parts.join(gap).trimEnd()}\n`);
  }

  /** A text of many lines that is meant to be copied, such as a script. */
  script(text: string): void {
    process.stdout.write(`${text.trimEnd().split("\n").map(printable).join("\n")}\n`);
  }

  /** The whole output as one JSON document. */
  document(value: unknown): void {
    process.stdout.write(`${toJson(value, 2)}\n`);
  }

  /** One JSON line of a stream. */
  event(value: { event: string } & Record<string, unknown>): void {
    process.stdout.write(`${toJson(value)}\n`);
  }

  /** A text that is safe already, with its colour if there are colours. */
  dye(text: string, style: Style | undefined): string {
    return style === undefined || !this.colour ? text : styleText(style, text, { validateStream: false });
  }

  #text({ strings, pieces }: Line): string {
    return strings.map((part, index) => part + this.#show(pieces[index] ?? "")).join("");
  }

  #show(piece: Piece): string {
    return typeof piece === "object" ? this.dye(safe(piece.text), piece.style) : safe(String(piece));
  }
}

// Escaped and not stripped: the value stays what it is. JSON itself only escapes what lies below the space.
const unsafeInJson = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

export function toJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replaceAll(
    unsafeInJson,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function wantsColour(): boolean {
  const { NO_COLOR, FORCE_COLOR, TERM } = process.env;
  if (NO_COLOR !== undefined && NO_COLOR !== "") return false;
  if (FORCE_COLOR !== undefined && FORCE_COLOR !== "" && FORCE_COLOR !== "0") return true;
  return process.stdout.isTTY && TERM !== "dumb";
}
