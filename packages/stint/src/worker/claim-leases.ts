import type { ClaimedJob } from "../model/job.ts";
import { stage, type LeasedClaim } from "./lease-messages.ts";

/** The leases of one claim, as the main thread keeps them. */
export class ClaimLeases {
  readonly claim: LeasedClaim;
  readonly #onOver: (held: ClaimLeases) => void;
  #left: number;

  constructor(claim: LeasedClaim, onOver: (held: ClaimLeases) => void) {
    this.claim = claim;
    this.#onOver = onOver;
    this.#left = claim.jobs.length;
  }

  /** Take a waiting job into a slot. False: it has been handed back meanwhile. */
  begin(index: number): boolean {
    return this.#swap(index, stage.running);
  }

  /** Take a waiting job away from everybody, to give it back. False: it has been handed back already. */
  withdraw(index: number): boolean {
    return this.#swap(index, stage.over);
  }

  isReleased(index: number): boolean {
    return Atomics.load(this.claim.stages, index) === stage.released;
  }

  serial(index: number): number {
    return this.claim.firstSerial + index;
  }

  /** Its outcome is recorded, or nobody's business here any more: its lease is no longer kept. */
  over(index: number): void {
    Atomics.store(this.claim.stages, index, stage.over);
    this.left();
  }

  /** One job less of this claim is here. */
  left(): void {
    this.#left -= 1;
    if (this.#left === 0) this.#onOver(this);
  }

  #swap(index: number, to: number): boolean {
    return Atomics.compareExchange(this.claim.stages, index, stage.waiting, to) === stage.waiting;
  }
}

/** One job of a claim, while it is here. */
export type LeasedJob = { readonly job: ClaimedJob; readonly held: ClaimLeases; readonly index: number };
