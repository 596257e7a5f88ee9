import { expect, test } from "vitest";
import {
  isAllowed,
  isTerminal,
  liveStates,
  states,
  terminalStates,
  transitions,
  type FromState,
} from "./state.ts";

const to = (state: (typeof states)[number]): FromState[] =>
  transitions.filter((one) => one.to === state).flatMap((one) => one.from);
const from = (state: FromState): string[] =>
  transitions.filter((one) => one.from.includes(state)).map((one) => one.to);

test("every state is either live or terminal", () => {
  expect([...liveStates, ...terminalStates].toSorted()).toEqual([...states].toSorted());
  expect(states.filter((state) => isTerminal(state))).toEqual([...terminalStates]);
});

test("no transition is in the table twice, and none leads to its own state", () => {
  const all = transitions.flatMap(({ from: sources, to: target, move }) =>
    sources.map((source) => `${source} ${target} ${move}`),
  );
  expect(new Set(all).size).toBe(all.length);
  for (const state of states) expect(isAllowed(state, state)).toBe(false);
});

test("every state can be reached from nothing", () => {
  const reached = new Set<FromState>(["absent"]);
  for (const state of reached) {
    for (const next of states) if (isAllowed(state, next)) reached.add(next);
  }
  expect([...reached].toSorted()).toEqual(["absent", ...states].toSorted());
});

test("every live job can be cancelled", () => {
  for (const state of liveStates) expect(isAllowed(state, "cancelled")).toBe(true);
});

test("only a running job succeeds, retries or dies", () => {
  for (const outcome of ["succeeded", "retrying", "dead"] as const)
    expect([...new Set(to(outcome))]).toEqual(["running"]);
});

test("success is final, and the other ends can only be replayed", () => {
  expect(from("succeeded")).toEqual([]);
  expect(from("dead")).toEqual(["ready"]);
  expect(from("cancelled")).toEqual(["ready"]);
});

test("a transition lists park reasons exactly if the job is parked before or after", () => {
  for (const one of transitions) {
    const parks = one.to === "parked" || one.from.includes("parked");
    expect([one.move, one.to, one.park !== undefined]).toEqual([one.move, one.to, parks]);
  }
});
