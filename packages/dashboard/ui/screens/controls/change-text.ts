import { duration, number } from "../../format.ts";

type Fields = Readonly<Record<string, unknown>>;

/** What changed from one value to the other, in words: only the parts that differ. */
export function changeTexts(name: string, from: unknown, to: unknown): string[] {
  // The settings of a dependency are the whole of it.
  return differences(name, name === "settings" ? "" : `${label(name)} `, from, to);
}

function differences(name: string, path: string, from: unknown, to: unknown): string[] {
  if (isObject(from) && isObject(to)) {
    const keys = new Set([...Object.keys(from), ...Object.keys(to)]);
    return [...keys].flatMap((key) =>
      differences(name === "weights" ? "" : key, `${path}${partLabel(name, key)} `, from[key], to[key]),
    );
  }
  const [before, after] = [valueText(name, from), valueText(name, to)];
  return before === after ? [] : [`${path}${before} → ${after}`];
}

function valueText(name: string, value: unknown): string {
  if (value === null || value === undefined) return "none";
  if (typeof value === "number") return name.endsWith("Ms") ? duration(value) : number(value);
  if (typeof value === "string") return isTime.test(value) ? time.format(new Date(value)) : value;
  if (!isObject(value)) return JSON.stringify(value);
  const parts = Object.entries(value).map(([key, part]) => {
    const text = valueText(key, part);
    return `${partLabel(name, key)} ${isObject(part) ? `(${text})` : text}`;
  });
  return parts.length === 0 ? "none" : parts.join(", ");
}

/** The weights of a fair queue are by tenant: names of other people's choice. */
function partLabel(name: string, key: string): string {
  return name === "weights" ? key : label(key);
}

/** `targetAgeMs` is the target age. */
function label(name: string): string {
  return name.replace(/Ms$/, "").replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const isTime = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}/;
const time = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });
