/** The layers of a flow's drawing: bounded, and complete for any graph. */
import { expect, test } from "vitest";
import { layOut, mostApart, mostLayers, type Part } from "../ui/screens/flow/graph-layout.ts";

const part = (id: string, after: string[] = [], kind = id): Part => ({
  id,
  kind,
  name: null,
  state: "ready",
  after,
  undoes: null,
});
const layers = (parts: Part[]) => layOut(parts).boxes.map(({ id, layer, row }) => [id, layer, row]);

test("a part stands right of all that it waits for, whatever the order of the list", () => {
  expect(layers([part("d", ["b", "c"]), part("b", ["a"]), part("c"), part("a")])).toEqual([
    ["c", 0, 0],
    ["a", 0, 1],
    ["b", 1, 0],
    ["d", 2, 0],
  ]);
  const { edges } = layOut([part("a"), part("b", ["a", "elsewhere"])]);
  expect(edges.map(({ from, to }) => [from.id, to.id])).toEqual([["a", "b"]]);
});

test("a compensation stands after the part that it undoes", () => {
  const { edges } = layOut([part("a"), { ...part("undo"), undoes: "a" }]);
  expect(edges).toMatchObject([{ from: { id: "a" }, to: { id: "undo", layer: 1 }, undoes: true }]);
});

test("10,000 parts of a fan-in are three boxes, and a circle ends", () => {
  const many = Array.from({ length: 10_000 }, (_, n) => part(`p${n}`, ["first"], "part"));
  const graph = layOut([
    part("first"),
    ...many,
    part(
      "end",
      many.map(({ id }) => id),
    ),
  ]);
  expect(graph.boxes.map(({ parts }) => parts.length)).toEqual([1, 10_000, 1]);
  expect(graph.edges).toHaveLength(2);
  expect(layOut([part("a", ["b"]), part("b", ["a"]), part("c", ["c"])]).boxes).toHaveLength(3);
  expect(layOut([])).toMatchObject({ boxes: [], layers: 0, rows: 0, left: 0 });
});

test("a chain of 10,000 parts is drawn from its live end", () => {
  const chain = Array.from({ length: 10_000 }, (_, n) => part(`p${n}`, n === 0 ? [] : [`p${n - 1}`], "loop"));
  const { boxes, left } = layOut(chain.toReversed());
  expect([boxes.length, boxes.at(-1)?.id, left]).toEqual([mostLayers, "p9999", 10_000 - mostLayers]);
});

test("few parts of a kind stay apart, so that each is a link to its job", () => {
  const few = Array.from({ length: mostApart }, (_, n) => part(`p${n}`, [], "part"));
  expect(layOut(few).boxes).toHaveLength(mostApart);
});
