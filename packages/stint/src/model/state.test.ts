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
  const all = transitions.flatMap(({ from: sources, to: target, move, park = [] }) =>
    sources.map((source) => `${source} ${target} ${move} ${park.join(" ")}`),
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

test("only a running job retries or dies, and a waiting one succeeds by complete alone", () => {
  for (const outcome of ["retrying", "dead"] as const) expect([...new Set(to(outcome))]).toEqual(["running"]);
  const succeeds = transitions.filter((one) => one.to === "succeeded" && one.move !== "complete");
  expect([...new Set(succeeds.flatMap((one) => one.from))]).toEqual(["running"]);
});

test("success is final, and the other ends can only be replayed", () => {
  expect(from("succeeded")).toEqual([]);
  for (const end of ["dead", "cancelled"] as const) {
    expect(new Set(transitions.filter((one) => one.from.includes(end)).map((one) => one.move))).toEqual(
      new Set(["replay"]),
    );
    // Parked, if it waits for other jobs again.
    expect([...new Set(from(end))].toSorted()).toEqual(["parked", "ready"]);
  }
});

test("a transition lists park reasons exactly if the job is parked before or after", () => {
  for (const one of transitions) {
    const parks = one.to === "parked" || one.from.includes("parked");
    expect([one.move, one.to, one.park !== undefined]).toEqual([one.move, one.to, parks]);
  }
});
