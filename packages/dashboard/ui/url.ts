/** The URL holds the state of a screen, in readable form: `?state=dead,retrying&range=6h`. */
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";

/** A parser per parameter. An invalid value becomes the default, so that old links still open. */
export type SearchSchema = Readonly<Record<string, (raw: string | undefined) => unknown>>;

export type SearchOf<Schema extends SearchSchema> = {
  readonly [Name in keyof Schema]: ReturnType<Schema[Name]>;
};

export const text = (raw: string | undefined): string | undefined => (raw === "" ? undefined : raw);

export function oneOf<Word extends string>(words: readonly Word[], otherwise: Word) {
  return (raw: string | undefined): Word => words.find((word) => word === raw) ?? otherwise;
}

type Change = Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * The URL parameters, and a function to change them. A change names only the changed parameters; undefined or an empty text
 * removes one. `replace` adds no history entry: use it while typing.
 */
export function useUrl<Schema extends SearchSchema>(
  schema: Schema,
): [SearchOf<Schema>, (change: Change, options?: { replace?: boolean }) => void] {
  const raw = useSearch({ strict: false }) as Record<string, string | undefined>;
  const navigate = useNavigate();
  const values = useMemo(
    () =>
      Object.fromEntries(
        Object.entries(schema).map(([name, read]) => [name, read(raw[name])]),
      ) as SearchOf<Schema>,
    [schema, raw],
  );
  const set = useCallback(
    (change: Change, { replace = false }: { replace?: boolean } = {}) => {
      void navigate({
        to: ".",
        replace,
        search: (now: Record<string, unknown>) => compact({ ...now, ...change }),
      } as never);
    },
    [navigate],
  );
  return [values, set];
}

/** A path parameter, such as `$queue` in `/queues/$queue`. */
export function usePathPart(name: string): string {
  const params = useParams({ strict: false }) as Record<string, string | undefined>;
  return params[name] ?? "";
}

export function compact(search: Readonly<Record<string, unknown>>): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(search)) {
    const text = Array.isArray(value) ? value.join(",") : value;
    if (typeof text === "string" && text !== "") kept[name] = text;
  }
  return kept;
}

export function parseSearch(search: string): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(search));
}

export function printSearch(search: Record<string, unknown>): string {
  const printed = new URLSearchParams(compact(search)).toString().replaceAll("%2C", ",");
  return printed === "" ? "" : `?${printed}`;
}
