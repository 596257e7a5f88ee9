import { MessageChannel, receiveMessageOnPort, type MessagePort } from "node:worker_threads";
import type { LeasedClaim } from "./lease-messages.ts";

/** How many stages of jobs share one piece of memory. Sharing a piece for every claim costs more than the rest of the message. */
const chunkSize = 4_096;

/** Memory for the stages of claims. A claim keeps its place; a chunk is garbage once all its claims are over. */
export class StageMemory {
  #chunk = new Uint8Array(new SharedArrayBuffer(chunkSize));
  #used = 0;

  allocate(count: number): Pick<LeasedClaim, "chunk" | "offset" | "stages"> {
    if (this.#used + count > this.#chunk.length) {
      this.#chunk = new Uint8Array(new SharedArrayBuffer(Math.max(chunkSize, count)));
      this.#used = 0;
    }
    const offset = this.#used;
    this.#used += count;
    return { chunk: this.#chunk, offset, stages: this.#chunk.subarray(offset, offset + count) };
  }
}

/** Of all workers of this process. */
export const stageMemory = new StageMemory();

/** Brings the claims of the main thread to one lease thread, which reads them whenever its loop turns. */
export class ClaimChannel {
  /** For the thread. */
  readonly port: MessagePort;
  readonly #sender: MessagePort;
  readonly #asleep = new Int32Array(new SharedArrayBuffer(4));
  #sentChunk: Uint8Array | undefined;

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
  send({ chunk, stages: { length }, ...claim }: LeasedClaim): boolean {
    if (this.#sentChunk !== chunk) this.#post(chunk);
    this.#sentChunk = chunk;
    // As text: it is cheaper to send, and the thread need not read it if the jobs are over by then.
    this.#post(`${claim.offset},${length};${JSON.stringify(claim)}`);
    // Sent first: a thread that falls asleep now reads it before it does.
    return Atomics.load(this.#asleep, 0) === 1;
  }

  close(): void {
    this.#sender.close();
  }

  #post(message: string | Uint8Array): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- A port between threads has no origin.
    this.#sender.postMessage(message);
  }
}

/** The thread's end of a channel. */
export class ClaimReceiver {
  readonly #port: MessagePort;
  readonly #isOver: (stage: number) => boolean;
  #chunk: Uint8Array<SharedArrayBuffer> | undefined;
  #received = 0;

  constructor(port: MessagePort, isOver: (stage: number) => boolean) {
    this.#port = port;
    this.#isOver = isOver;
  }

  /** How many messages have come. */
  get received(): number {
    return this.#received;
  }

  /** The next claim with a job that is not over yet; undefined if there is none. */
  next(): LeasedClaim | undefined {
    for (;;) {
      const received = receiveMessageOnPort(this.#port);
      if (received === undefined) return undefined;
      this.#received += 1;
      const message = received.message as string | Uint8Array<SharedArrayBuffer>;
      if (typeof message !== "string") this.#chunk = message;
      else {
        const claim = this.#read(message);
        if (claim !== undefined) return claim;
      }
    }
  }

  #read(message: string): LeasedClaim | undefined {
    const chunk = this.#chunk;
    const [offset = 0, count = 0] = message.slice(0, message.indexOf(";")).split(",").map(Number);
    const stages = chunk?.subarray(offset, offset + count);
    if (chunk === undefined || stages === undefined) return undefined;
    if (stages.every((_, index) => this.#isOver(Atomics.load(stages, index)))) return undefined;
    const claim = JSON.parse(message.slice(message.indexOf(";") + 1)) as Omit<
      LeasedClaim,
      "chunk" | "stages"
    >;
    return { ...claim, chunk, stages };
  }
}
