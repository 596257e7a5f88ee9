/** The part of JSON Schema that openapi.json uses. A keyword it does not know is an error, not a pass. */
export type Schema = { readonly [keyword: string]: unknown };

const keywords =
  "$ref anyOf type enum format properties required additionalProperties items " +
  "minLength maxLength minimum maximum default description";
const known = new Set(keywords.split(" "));

const formats: Record<string, RegExp> = {
  "date-time": /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/,
  uuid: /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
};

/** The mismatches between a value and its schema, each with its path. */
export function misfits(schema: Schema, value: unknown, find: (ref: string) => Schema, at = "$"): string[] {
  const unknown = Object.keys(schema).filter((keyword) => !known.has(keyword));
  if (unknown.length > 0) return [`${at}: the validator does not know ${unknown.join(", ")}`];
  if (typeof schema["$ref"] === "string") return misfits(find(schema["$ref"]), value, find, at);
  if (Array.isArray(schema["anyOf"])) {
    const tries = (schema["anyOf"] as Schema[]).map((one) => misfits(one, value, find, at));
    return tries.some((found) => found.length === 0) ? [] : tries.flat();
  }
  const types = schema["type"] === undefined ? [] : ([schema["type"]].flat() as string[]);
  if (types.length > 0 && !types.some((type) => isOf(type, value)))
    return [`${at}: must be ${types.join(" or ")}, is ${JSON.stringify(value)?.slice(0, 80) ?? "undefined"}`];
  if (Array.isArray(schema["enum"]) && !(schema["enum"] as unknown[]).includes(value))
    return [`${at}: ${JSON.stringify(value)} is none of ${schema["enum"].join(", ")}`];
  if (typeof value === "string" && typeof schema["format"] === "string") {
    const format = formats[schema["format"]];
    if (format?.test(value) !== true) return [`${at}: ${value} is no ${schema["format"]}`];
  }
  if (Array.isArray(value))
    return value.flatMap((item, index) =>
      misfits((schema["items"] ?? {}) as Schema, item, find, `${at}[${index}]`),
    );
  return typeof value === "object" && value !== null ? ofObject(schema, value, find, at) : [];
}

function ofObject(schema: Schema, value: object, find: (ref: string) => Schema, at: string): string[] {
  const properties = (schema["properties"] ?? {}) as Record<string, Schema>;
  const required = (schema["required"] ?? []) as string[];
  const rest = schema["additionalProperties"];
  return [
    ...required.filter((key) => !(key in value)).map((key) => `${at}.${key}: is missing`),
    ...Object.entries(value).flatMap(([key, inner]) => {
      const inside = properties[key] ?? (rest === false ? undefined : ((rest ?? {}) as Schema));
      return inside === undefined
        ? [`${at}.${key}: is not in the document`]
        : misfits(inside, inner, find, `${at}.${key}`);
    }),
  ];
}

function isOf(type: string, value: unknown): boolean {
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  if (type === "integer") return Number.isInteger(value);
  if (type === "object") return typeof value === "object" && value !== null && !Array.isArray(value);
  return typeof value === type;
}
