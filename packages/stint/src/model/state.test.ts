import { expect, test } from "vitest";
import { allowedTransitions, isTerminal, liveStates, states, terminalStates } from "./state.ts";

test("every state is either live or terminal", () => {
  expect([...liveStates, ...terminalStates].toSorted()).toEqual([...states].toSorted());
  expect(states.filter((state) => isTerminal(state))).toEqual([...terminalStates]);
});

test("every state has its transitions, each named once and none to itself", () => {
  expect(Object.keys(allowedTransitions).toSorted()).toEqual(["absent", ...states].toSorted());
  for (const [from, targets] of Object.entries(allowedTransitions)) {
    expect(new Set(targets).size).toBe(targets.length);
    expect(targets).not.toContain(from);
  }
});

test("every state can be reached from nothing", () => {
  const reached = new Set<string>(["absent"]);
  for (const state of reached) {
    for (const next of allowedTransitions[state as keyof typeof allowedTransitions]) reached.add(next);
  }
  expect([...reached].toSorted()).toEqual(["absent", ...states].toSorted());
});

test("every live job can be cancelled", () => {
  for (const state of liveStates) expect(allowedTransitions[state]).toContain("cancelled");
});

test("only a running job succeeds or retries", () => {
  for (const outcome of ["succeeded", "retrying"] as const) {
    const sources = Object.entries(allowedTransitions).filter(([, targets]) => targets.includes(outcome));
    expect(sources.map(([from]) => from)).toEqual(["running"]);
  }
});

test("success is final, and what else ended can only be replayed", () => {
  expect(allowedTransitions.succeeded).toEqual([]);
  expect(allowedTransitions.dead).toEqual(["ready"]);
  expect(allowedTransitions.cancelled).toEqual(["ready"]);
});
