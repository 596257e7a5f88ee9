import { Transform, type TransformCallback } from "node:stream";

/** A line without an end is passed on at this length. */
const longestLine = 1_000_000;

/**
 * Adds the number of a process to each of its lines: `"process":2` to a JSON object, `[2] ` before any other text. Lines of several processes
 * never mix.
 */
export class NumberedLines extends Transform {
  readonly #number: number;
  #unfinished = "";

  constructor(number: number) {
    super({ decodeStrings: false, encoding: "utf8" });
    this.#number = number;
  }

  override _transform(part: string | Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    const lines = `${this.#unfinished}${String(part)}`.split("\n");
    const last = lines.pop() ?? "";
    this.#unfinished = last.length > longestLine ? "" : last;
    if (last.length > longestLine) lines.push(last);
    done(null, lines.map((line) => this.#numbered(line)).join(""));
  }

  override _flush(done: TransformCallback): void {
    done(null, this.#unfinished === "" ? "" : this.#numbered(this.#unfinished));
  }

  #numbered(line: string): string {
    const isObject = line.startsWith('{"') && line.endsWith("}");
    return isObject ? `{"process":${this.#number},${line.slice(1)}\n` : `[${this.#number}] ${line}\n`;
  }
}
