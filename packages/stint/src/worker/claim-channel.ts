import { MessageChannel, type MessagePort } from "node:worker_threads";
import type { LeasedClaim } from "./lease-messages.ts";

/** Brings the claims of the main thread to one lease thread, which reads them whenever its loop turns. */
export class ClaimChannel {
  /** For the thread. */
  readonly port: MessagePort;
  readonly #sender: MessagePort;
  readonly #asleep = new Int32Array(new SharedArrayBuffer(4));

  constructor() {
    const { port1, port2 } = new MessageChannel();
    this.#sender = port1;
    this.port = port2;
  }

  /** Where the thread writes that its loop does not turn. */
  get asleep(): SharedArrayBuffer {
    return this.#asleep.buffer;
  }

  /** True if the thread is asleep and must be woken. */
  send(claim: LeasedClaim): boolean {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- A port between threads has no origin.
    this.#sender.postMessage(claim);
    // Sent first: a thread that falls asleep now reads it before it does.
    return Atomics.load(this.#asleep, 0) === 1;
  }

  close(): void {
    this.#sender.close();
  }
}
