type Value = string | number | boolean | null | readonly Value[] | { readonly [key: string]: Value };

/** Write plain values as YAML that people can read and edit. Strings that YAML could read as another type are quoted. */
export function toYaml(value: unknown): string {
  return `${lines(value as Value).join("\n")}\n`;
}

function lines(value: Value): string[] {
  if (isList(value)) return value.flatMap((item) => nested("-", item));
  if (typeof value === "object" && value !== null)
    return Object.entries(value).flatMap(([key, item]) => entry(key, item));
  return [scalar(value)];
}

function entry(key: string, item: Value): string[] {
  const name = `${scalar(key)}:`;
  if (isEmpty(item)) return [`${name} ${isList(item) ? "[]" : "{}"}`];
  if (typeof item !== "object" || item === null) return [`${name} ${scalar(item)}`];
  return [name, ...lines(item).map((line) => `  ${line}`)];
}

function nested(mark: string, item: Value): string[] {
  if (isEmpty(item)) return [`${mark} ${isList(item) ? "[]" : "{}"}`];
  const [first = "", ...rest] = lines(item);
  return [`${mark} ${first}`, ...rest.map((line) => `  ${line}`)];
}

/** Starts with a letter or slash and has no character with a meaning in YAML. */
const plain = /^[A-Za-z/][\w./ -]*$/;
const meaning = /^(?:true|false|yes|no|on|off|y|n|null)$/i;

function scalar(value: string | number | boolean | null): string {
  if (typeof value !== "string") return String(value);
  // Every JSON string is a YAML string.
  return plain.test(value) && !value.endsWith(" ") && !meaning.test(value) ? value : JSON.stringify(value);
}

function isList(value: Value): value is readonly Value[] {
  return Array.isArray(value);
}

function isEmpty(value: Value): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}
