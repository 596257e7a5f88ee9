import { expect, test } from "vitest";
import { ClaimChannel, ClaimReceiver, StageMemory } from "./claim-channel.ts";
import { stage, type LeasedClaim } from "./lease-messages.ts";

const memory = new StageMemory();

function claimOf(...jobs: string[]): LeasedClaim {
  return {
    leaseId: "lease",
    sentAt: 12.5,
    firstSerial: 3,
    jobs,
    epochs: jobs.map(() => 1),
    kinds: jobs.map((job) => `kind of "${job}"; 1,2`),
    leaseMs: jobs.map(() => 30_000),
    renewUntil: jobs.map(() => 60_000),
    ...memory.allocate(jobs.length),
  };
}

function connect(): { channel: ClaimChannel; receiver: ClaimReceiver } {
  const channel = new ClaimChannel();
  return { channel, receiver: new ClaimReceiver(channel.port, (each) => each >= stage.over) };
}

test("a claim arrives as it was sent, and shares its stages", () => {
  const { channel, receiver } = connect();
  const claim = claimOf("a", "b");
  channel.send(claim);
  const received = receiver.next()!;

  expect(received).toEqual(claim);
  Atomics.store(claim.stages, 1, stage.running);
  expect(Atomics.load(received.stages, 1)).toBe(stage.running);
  expect(receiver.next()).toBeUndefined();
  channel.close();
});

test("a claim whose jobs are all over is skipped, and still counts as received", () => {
  const { channel, receiver } = connect();
  const [over, half] = [claimOf("a", "b"), claimOf("c", "d")];
  channel.send(over);
  channel.send(half);
  for (const stages of [over.stages, half.stages.subarray(1)]) stages.fill(stage.over);

  expect(receiver.next()?.jobs).toEqual(["c", "d"]);
  expect(receiver.next()).toBeUndefined();
  expect(receiver.received).toBe(2);
  channel.close();
});

test("claims of several chunks keep their own stages, in any order", () => {
  const { channel, receiver } = connect();
  const many = Array.from({ length: 5 }, (_, n) => claimOf(...Array.from({ length: 1_500 }, () => `${n}`)));
  expect(new Set(many.map(({ chunk }) => chunk)).size).toBeGreaterThan(1);
  for (const claim of many.toReversed()) channel.send(claim);
  for (const [n, { stages }] of many.entries()) Atomics.store(stages, 7, n % 2);

  for (const n of [4, 3, 2, 1, 0]) {
    const received = receiver.next()!;
    expect([received.jobs[0], Atomics.load(received.stages, 7)]).toEqual([`${n}`, n % 2]);
  }
  channel.close();
});

test("claims of more than a page arrive one by one while they are written", () => {
  const { channel, receiver } = connect();
  const names = Array.from({ length: 400 }, (_, n) => `${n} ${"ü→".repeat(n)}`);
  const received: (string | undefined)[] = [];
  for (const [n, name] of names.entries()) {
    channel.send(claimOf(name));
    if (n % 3 === 0) received.push(receiver.next()?.jobs[0]);
  }
  for (let claim = receiver.next(); claim !== undefined; claim = receiver.next())
    received.push(claim.jobs[0]);

  expect(received).toEqual(names);
  expect(receiver.received).toBe(names.length);
  channel.close();
});

test("a claim that is larger than a page arrives whole", () => {
  const { channel, receiver } = connect();
  const jobs = Array.from({ length: 3_000 }, (_, n) => `job ${n}`);
  for (const claim of [claimOf("before"), claimOf(...jobs), claimOf("after")]) channel.send(claim);
  expect([receiver.next()?.jobs, receiver.next()?.jobs, receiver.next()?.jobs]).toEqual([
    ["before"],
    jobs,
    ["after"],
  ]);
  channel.close();
});

test("a claim of more jobs than a chunk holds gets memory of its own", () => {
  const { stages, chunk } = memory.allocate(10_000);
  expect([stages.length, chunk.length]).toEqual([10_000, 10_000]);
});

test("a send reports whether the thread is asleep and must be woken", () => {
  const { channel } = connect();
  expect(channel.send(claimOf("a"))).toBe(false);
  Atomics.store(new Int32Array(channel.asleep), 0, 1);
  expect(channel.send(claimOf("b"))).toBe(true);
  channel.close();
});
