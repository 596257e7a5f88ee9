/** A flow as boxes in layers: each part stands right of all that it waits for. */
import type { FlowPart } from "stint";
import type { Wire } from "../../api.ts";

export type Part = Pick<Wire<FlowPart>, "id" | "kind" | "name" | "state" | "after" | "undoes">;

/** One part, or all parts of a kind in one layer. */
export type Box<P extends Part> = {
  readonly id: string;
  readonly parts: readonly P[];
  readonly layer: number;
  readonly row: number;
};

export type Edge<P extends Part> = { readonly from: Box<P>; readonly to: Box<P>; readonly undoes: boolean };

export type Graph<P extends Part> = {
  readonly boxes: readonly Box<P>[];
  readonly edges: readonly Edge<P>[];
  readonly layers: number;
  readonly rows: number;
  /** Parts in earlier layers, which are not drawn. */
  readonly left: number;
};

/** More parts of one kind in one layer are one box. */
export const mostApart = 6;
/** A longer chain is drawn from its live end. */
export const mostLayers = 60;

export function layOut<P extends Part>(parts: readonly P[]): Graph<P> {
  const layerOf = layersOf(parts);
  const deepest = parts.reduce((most, { id }) => Math.max(most, layerOf.get(id) ?? 0), 0);
  const first = Math.max(0, deepest + 1 - mostLayers);
  const layers: P[][] = Array.from({ length: parts.length === 0 ? 0 : deepest + 1 - first }, () => []);
  for (const part of parts) layers[(layerOf.get(part.id) ?? 0) - first]?.push(part);

  const boxOf = new Map<string, Box<P>>();
  const boxes = layers.flatMap((members, layer) => {
    const height = (ids: readonly string[]): number => {
      const rows = ids.flatMap((id) => boxOf.get(id)?.row ?? []);
      return rows.length === 0 ? 0 : rows.reduce((sum, row) => sum + row, 0) / rows.length;
    };
    // Below what it waits for: fewer lines cross.
    const groups = grouped(members).toSorted(
      (a, b) => height(a.flatMap((part) => before(part))) - height(b.flatMap((part) => before(part))),
    );
    const made = groups.map((group, row) => ({ id: group[0]?.id ?? "", parts: group, layer, row }));
    for (const box of made) for (const { id } of box.parts) boxOf.set(id, box);
    return made;
  });
  return {
    boxes,
    edges: edgesOf(boxes, boxOf),
    layers: layers.length,
    rows: boxes.reduce((most, { row }) => Math.max(most, row + 1), 0),
    left: parts.length - boxes.reduce((sum, box) => sum + box.parts.length, 0),
  };
}

function before({ after, undoes }: Part): readonly string[] {
  return undoes === null ? after : [...after, undoes];
}

/** One more than the deepest of those it waits for. What closes a circle counts as the beginning. */
function layersOf(parts: readonly Part[]): ReadonlyMap<string, number> {
  const byId = new Map(parts.map((part) => [part.id, part]));
  const layers = new Map<string, number>();
  const open = new Set<string>();
  for (const { id: start } of parts) {
    const stack = [start];
    for (let id = stack.at(-1); id !== undefined; id = stack.at(-1)) {
      const part = byId.get(id);
      const waits = part === undefined ? [] : before(part).filter((other) => byId.has(other));
      const next = layers.has(id) ? undefined : waits.find((other) => !layers.has(other) && !open.has(other));
      open.add(id);
      if (next !== undefined) {
        stack.push(next);
        continue;
      }
      stack.pop();
      open.delete(id);
      if (!layers.has(id)) layers.set(id, Math.max(-1, ...waits.map((other) => layers.get(other) ?? -1)) + 1);
    }
  }
  return layers;
}

function grouped<P extends Part>(members: readonly P[]): P[][] {
  const byKind = new Map<string, P[]>();
  for (const part of members) {
    const key = `${part.undoes === null ? "" : "undoes "}${part.kind}`;
    const same = byKind.get(key);
    if (same === undefined) byKind.set(key, [part]);
    else same.push(part);
  }
  return [...byKind.values()].flatMap((same) =>
    same.length > mostApart ? [same] : same.map((part) => [part]),
  );
}

/** One line between two boxes, however many parts they hold. */
function edgesOf<P extends Part>(boxes: readonly Box<P>[], boxOf: ReadonlyMap<string, Box<P>>): Edge<P>[] {
  return boxes.flatMap((to) => {
    const found = new Map<Box<P>, Edge<P>>();
    for (const part of to.parts) {
      for (const id of before(part)) {
        const from = boxOf.get(id);
        if (from !== undefined && from !== to && !found.has(from))
          found.set(from, { from, to, undoes: id === part.undoes });
      }
    }
    return [...found.values()];
  });
}
