/** The address holds the state of a screen, as plain words: `?state=dead,retrying&range=6h`. */
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";

/** How each name in the address is read. What cannot be read becomes the default, so that an old link still opens. */
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
 * What the address says, and how to change it. A change names only what changes; undefined or nothing removes it. `replace` keeps
 * the change out of the history: for typing, not for choosing.
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

/** The part of the path that names something: the `$queue` of `/queues/$queue`. */
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
