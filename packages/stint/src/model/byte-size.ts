import { InvalidOptionError } from "../errors.ts";
import { describe } from "./describe.ts";

/** A size such as `"512mb"` or `"2gb"`, or a number of bytes. */
export type ByteSize = string | number;

const kilobyte = 1_024;
const megabyte = 1_024 * kilobyte;
const gigabyte = 1_024 * megabyte;
const units: ReadonlyMap<string, number> = new Map([
  ["kb", kilobyte],
  ["mb", megabyte],
  ["gb", gigabyte],
]);

/**
 * Read a size as whole bytes.
 *
 * @throws {InvalidOptionError} The value is not a size, or is outside `limits`.
 */
export function toBytes(value: ByteSize, option: string, limits: { min: number; max: number }): number {
  const bytes = typeof value === "number" ? value : parse(value);
  if (bytes === undefined || !Number.isFinite(bytes) || bytes < 0)
    throw new InvalidOptionError(
      option,
      `must be a size such as "512mb" or "2gb", or a number of bytes, got ${describe(value)}`,
    );
  if (bytes < limits.min)
    throw new InvalidOptionError(
      option,
      `must be at least ${formatBytes(limits.min)}, got ${describe(value)}`,
    );
  if (bytes > limits.max)
    throw new InvalidOptionError(
      option,
      `must be at most ${formatBytes(limits.max)}, got ${describe(value)}`,
    );
  return Math.round(bytes);
}

function formatBytes(bytes: number): string {
  return bytes >= gigabyte && bytes % gigabyte === 0
    ? `${bytes / gigabyte} GB`
    : `${Math.round(bytes / megabyte)} MB`;
}

function parse(value: unknown): number | undefined {
  if (typeof value !== "string") return undefined;
  const [, amount = "", unit = ""] = /^\s*(\d{1,9}(?:\.\d{1,3})?) ?(kb|mb|gb)\s*$/i.exec(value) ?? [];
  const factor = units.get(unit.toLowerCase());
  return factor === undefined ? undefined : Number(amount) * factor;
}
