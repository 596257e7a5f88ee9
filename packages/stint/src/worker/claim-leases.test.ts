import { expect, test } from "vitest";
import { ClaimLeases } from "./claim-leases.ts";
import { stage, type LeasedClaim } from "./lease-messages.ts";

function hold(count: number): { held: ClaimLeases; claim: LeasedClaim; overs: ClaimLeases[] } {
  const names = Array.from({ length: count }, (_, n) => `job-${n}`);
  const claim: LeasedClaim = {
    leaseId: "l",
    sentAt: 0,
    firstSerial: 41,
    jobs: names,
    epochs: names.map(() => 1),
    kinds: names.map(() => "work"),
    leaseMs: names.map(() => 30_000),
    renewUntil: names.map(() => 60_000),
    stages: new Uint8Array(new SharedArrayBuffer(count)),
  };
  const overs: ClaimLeases[] = [];
  return { held: new ClaimLeases(claim, (over) => overs.push(over)), claim, overs };
}

/** What the lease thread does with a job that has waited for too long. */
function handBack({ stages }: LeasedClaim, index: number): boolean {
  return Atomics.compareExchange(stages, index, stage.waiting, stage.released) === stage.waiting;
}

test("a job that waits can be begun once, and is not handed back after that", () => {
  const { held, claim } = hold(2);

  expect(held.begin(0)).toBe(true);
  expect(held.begin(0)).toBe(false);
  expect(held.withdraw(0)).toBe(false);
  expect(handBack(claim, 0)).toBe(false);
  expect(held.isReleased(0)).toBe(false);
  expect(held.begin(1)).toBe(true);
});

test("a job that was handed back can be neither begun nor withdrawn", () => {
  const { held, claim } = hold(1);
  expect(handBack(claim, 0)).toBe(true);

  expect(held.isReleased(0)).toBe(true);
  expect(held.begin(0)).toBe(false);
  expect(held.withdraw(0)).toBe(false);
});

test("a job that was withdrawn is not handed back a second time, and its lease is no longer kept", () => {
  const { held, claim } = hold(1);
  expect(held.withdraw(0)).toBe(true);

  expect(handBack(claim, 0)).toBe(false);
  expect(held.begin(0)).toBe(false);
  expect(claim.stages[0]).toBe(stage.over);
});

test("the jobs of a claim are numbered on from its first", () => {
  const { held } = hold(3);
  expect([held.serial(0), held.serial(2)]).toEqual([41, 43]);
});

test("a claim is over, once, when the last of its jobs has left, in whatever way", () => {
  const { held, claim, overs } = hold(3);
  held.begin(0);
  held.over(0);
  handBack(claim, 1);
  held.left();
  expect(overs).toEqual([]);
  held.withdraw(2);
  held.left();

  expect(overs).toEqual([held]);
});
