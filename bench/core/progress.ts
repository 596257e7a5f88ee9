import type { Measurement } from "./scenario.ts";
import type { Step } from "./plan.ts";

/** Prints the current cell and the remaining time: one rewritten line on a terminal, a line per cell elsewhere. */
export class Progress {
  readonly #steps: readonly Step[];
  readonly #out: NodeJS.WriteStream;
  readonly #seconds = new Map<string, number[]>();
  #index = 0;
  #begunMs = 0;

  constructor(steps: readonly Step[], out: NodeJS.WriteStream = process.stderr) {
    this.#steps = steps;
    this.#out = out;
  }

  begin(step: Step): void {
    this.#index += 1;
    this.#begunMs = performance.now();
    if (this.#out.isTTY) this.#rewrite(`${this.#position()} ${name(step)} …${this.#left()}`);
  }

  end(step: Step, outcome: readonly Measurement[] | string): void {
    const all = this.#seconds.get(step.scenario.name) ?? [];
    this.#seconds.set(step.scenario.name, [...all, (performance.now() - this.#begunMs) / 1000]);
    const failed = typeof outcome === "string";
    // Lines about failures stay on the terminal; the tables show everything else.
    if (this.#out.isTTY && !failed) return;
    const result = failed ? outcome : outcome.map(toText).join(", ");
    this.line(`${this.#position()} ${name(step)}: ${result}${this.#out.isTTY ? "" : this.#left()}`);
  }

  /** Prints a permanent line. */
  line(text: string): void {
    if (this.#out.isTTY) this.#rewrite("");
    this.#out.write(`${text}\n`);
  }

  #rewrite(text: string): void {
    this.#out.write(`\r\u001b[2K${text.slice(0, (this.#out.columns || 80) - 1)}`);
  }

  #position(): string {
    return `[${this.#index}/${this.#steps.length}]`;
  }

  /** Estimated from the durations of each scenario's finished cells. A scenario without finished cells uses the overall average. */
  #left(): string {
    const everything = [...this.#seconds.values()].flat();
    if (everything.length < 3) return "";
    const left = this.#steps
      .slice(this.#index)
      .reduce((sum, { scenario }) => sum + mean(this.#seconds.get(scenario.name) ?? everything), 0);
    return left < 90 ? `; about ${Math.ceil(left)} s left` : `; about ${Math.ceil(left / 60)} min left`;
  }
}

function name({ scenario, cell: { system, config, variant, round } }: Step): string {
  return `${scenario.name}, ${variant.name}: ${system} ${config}, round ${round + 1}`;
}

function toText({ suffix, unit, value }: Measurement): string {
  return `${suffix === undefined ? "" : `${suffix} `}${Number(value.toPrecision(4)).toLocaleString("en")} ${unit}`;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
