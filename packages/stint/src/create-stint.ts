import { resolveStintOptions, type StintOptions } from "./client/options.ts";
import { Stint } from "./stint.ts";

/**
 * Make a client.
 *
 * @throws {InvalidOptionError} An option cannot work.
 */
export function createStint(options: StintOptions = {}): Stint {
  return new Stint(resolveStintOptions(options));
}
