import type { ClaimedJob } from "../model/job.ts";
import { stage, type LeasedClaim } from "./lease-messages.ts";

/** The leases of one claim, as the main thread keeps them. */
export class ClaimLeases {
  readonly claim: LeasedClaim;
  readonly #onOver: (leases: ClaimLeases) => void;
  readonly #onExtended: (leases: ClaimLeases, index: number) => void;
  #left: number;

  constructor(
    claim: LeasedClaim,
    onOver: (leases: ClaimLeases) => void,
    onExtended: (leases: ClaimLeases, index: number) => void = () => undefined,
  ) {
    this.#onExtended = onExtended;
    this.claim = claim;
    this.#onOver = onOver;
    this.#left = claim.jobs.length;
  }

  /** Start a waiting job. False: it has been released meanwhile, and must not run here. */
  begin(index: number): boolean {
    return this.#leaveWaiting(index, stage.running);
  }

  /** Take a waiting job out, so that the caller can release it. False: the lease thread has released it already. */
  release(index: number): boolean {
    return this.#leaveWaiting(index, stage.over);
  }

  /** Whether the lease thread has released it. */
  isReleased(index: number): boolean {
    return Atomics.load(this.claim.stages, index) === stage.released;
  }

  serial(index: number): number {
    return this.claim.firstSerial + index;
  }

  /** Renew this lease for so much longer. */
  extend(index: number, ms: number): void {
    this.claim.renewUntil[index] = (this.claim.renewUntil[index] ?? 0) + ms;
    this.#onExtended(this, index);
  }

  /** The outcome is recorded, or another worker owns the job: stop renewing this lease. */
  end(index: number): void {
    Atomics.store(this.claim.stages, index, stage.over);
    this.forget();
  }

  /** One job less of this claim is here. After the last one the claim is over. */
  forget(): void {
    this.#left -= 1;
    if (this.#left === 0) this.#onOver(this);
  }

  /** Both threads may try; the exchange lets exactly one of them succeed. */
  #leaveWaiting(index: number, to: number): boolean {
    return Atomics.compareExchange(this.claim.stages, index, stage.waiting, to) === stage.waiting;
  }
}

/** One job of a claim, while it is here. */
export type LeasedJob = { readonly job: ClaimedJob; readonly leases: ClaimLeases; readonly index: number };
