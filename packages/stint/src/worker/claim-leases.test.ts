import { expect, test } from "vitest";
import { StageMemory } from "./claim-channel.ts";
import { ClaimLeases } from "./claim-leases.ts";
import { stage, type LeasedClaim } from "./lease-messages.ts";

function hold(count: number): { leases: ClaimLeases; claim: LeasedClaim; overs: ClaimLeases[] } {
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
    ...new StageMemory().allocate(count),
  };
  const overs: ClaimLeases[] = [];
  return { leases: new ClaimLeases(claim, (over) => overs.push(over)), claim, overs };
}

/** What the lease thread does with a job that has waited for too long. */
function releaseByThread({ stages }: LeasedClaim, index: number): boolean {
  return Atomics.compareExchange(stages, index, stage.waiting, stage.released) === stage.waiting;
}

test("a waiting job can begin once, and is not released after that", () => {
  const { leases, claim } = hold(2);

  expect(leases.begin(0)).toBe(true);
  expect(leases.begin(0)).toBe(false);
  expect(leases.release(0)).toBe(false);
  expect(releaseByThread(claim, 0)).toBe(false);
  expect(leases.isReleased(0)).toBe(false);
  expect(leases.begin(1)).toBe(true);
});

test("a job the lease thread released can neither begin nor be released again", () => {
  const { leases, claim } = hold(1);
  expect(releaseByThread(claim, 0)).toBe(true);

  expect(leases.isReleased(0)).toBe(true);
  expect(leases.begin(0)).toBe(false);
  expect(leases.release(0)).toBe(false);
});

test("a job released here is not released twice, and its lease is no longer kept", () => {
  const { leases, claim } = hold(1);
  expect(leases.release(0)).toBe(true);

  expect(releaseByThread(claim, 0)).toBe(false);
  expect(leases.begin(0)).toBe(false);
  expect(claim.stages[0]).toBe(stage.over);
});

test("the jobs of a claim have consecutive serial numbers", () => {
  const { leases } = hold(3);
  expect([leases.serial(0), leases.serial(2)]).toEqual([41, 43]);
});

test("a claim is over once, when the last of its jobs has left in any way", () => {
  const { leases, claim, overs } = hold(3);
  leases.begin(0);
  leases.end(0);
  releaseByThread(claim, 1);
  leases.forget();
  expect(overs).toEqual([]);
  leases.release(2);
  leases.forget();

  expect(overs).toEqual([leases]);
});
