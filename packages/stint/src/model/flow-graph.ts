import { InvalidOptionError } from "../errors.ts";
import { describe } from "./describe.ts";
import { closest } from "./names.ts";

/**
 * The names of a flow's parts, each after all that it waits for.
 *
 * @throws {InvalidOptionError} A part waits for one that does not exist, or for itself, directly or in a circle.
 */
export function inFlowOrder(what: string, after: ReadonlyMap<string, readonly string[]>): string[] {
  const done = new Set<string>();
  const path: string[] = [];
  const visit = (name: string): void => {
    if (done.has(name)) return;
    const from = path.indexOf(name);
    if (from !== -1)
      throw new InvalidOptionError(
        `${what}.${name}`,
        `its parts wait for one another in a circle: ${[...path.slice(from), name].toReversed().join(" → ")}`,
      );
    path.push(name);
    for (const other of after.get(name) ?? []) {
      if (!after.has(other)) throw unknownPart(`${what}.${name}.after`, other, after.keys());
      visit(other);
    }
    path.pop();
    done.add(name);
  };
  for (const name of after.keys()) visit(name);
  return [...done];
}

function unknownPart(option: string, name: string, known: Iterable<string>): InvalidOptionError {
  const suggestion = closest(name, known);
  return new InvalidOptionError(
    option,
    `there is no part ${describe(name)} in this flow${suggestion === undefined ? "" : `; did you mean "${suggestion}"?`}`,
  );
}

/** A part of a flow, as far as drawing it needs. */
export type DrawnPart = { readonly id: string; readonly after: readonly string[] };

/** One line of the drawing: the part, the branches before it, and the further parts it waits for. */
export type DrawnLine<Part> = {
  readonly part: Part;
  readonly branch: string;
  readonly also: readonly Part[];
};

/**
 * A flow as a tree of lines. A part stands below the last of the parts that it waits for; the others are named beside it. Parts must be given in an
 * order in which each comes after those that it waits for, as far as it can be had; what closes a circle is drawn as a root.
 */
export function drawFlow<Part extends DrawnPart>(parts: readonly Part[]): DrawnLine<Part>[] {
  const byId = new Map(parts.map((part) => [part.id, part]));
  const depth = new Map<string, number>();
  const below = new Map<string | undefined, Part[]>();
  const depthOf = (id: string): number => depth.get(id) ?? -1;
  for (const part of parts) {
    const known = part.after.filter((id) => depth.has(id));
    const last = known.toSorted((a, b) => depthOf(a) - depthOf(b)).at(-1);
    depth.set(part.id, last === undefined ? 0 : depthOf(last) + 1);
    const siblings = below.get(last);
    if (siblings === undefined) below.set(last, [part]);
    else siblings.push(part);
  }
  const lines: DrawnLine<Part>[] = [];
  const draw = (parent: string | undefined, indent: string): void => {
    const children = below.get(parent) ?? [];
    for (const [index, part] of children.entries()) {
      const isLast = index === children.length - 1;
      const branch = parent === undefined ? "" : `${indent}${isLast ? "└─ " : "├─ "}`;
      const also = part.after.flatMap((id) => (id === parent ? [] : (byId.get(id) ?? [])));
      lines.push({ part, branch, also });
      draw(part.id, parent === undefined ? "" : `${indent}${isLast ? "   " : "│  "}`);
    }
  };
  draw(undefined, "");
  return lines;
}
