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

/** How many bytes of claims share one page. */
const pageSize = 65_536;

/** Memory that both threads share: the main thread appends texts, the lease thread reads them. */
class Page {
  /** How many bytes are written. */
  readonly #written: Int32Array;
  readonly #bytes: Buffer;

  constructor(readonly memory: SharedArrayBuffer) {
    this.#written = new Int32Array(memory, 0, 1);
    this.#bytes = Buffer.from(memory, 4);
  }

  static for(text: string): Page {
    return new Page(new SharedArrayBuffer(Math.max(pageSize, Page.#mostBytes(text) + 4)));
  }

  static #mostBytes(text: string): number {
    return 4 + text.length * 3;
  }

  /** False if the page has no room for it. */
  append(text: string): boolean {
    const from = Atomics.load(this.#written, 0);
    if (from + Page.#mostBytes(text) > this.#bytes.length) return false;
    const length = this.#bytes.write(text, from + 4);
    this.#bytes.writeInt32LE(length, from);
    // Last: the other thread reads no further than this.
    Atomics.store(this.#written, 0, from + 4 + length);
    return true;
  }

  /** The text that begins at this byte, and where the next one begins; undefined if there is none yet. */
  read(from: number): { text: string; end: number } | undefined {
    if (from >= Atomics.load(this.#written, 0)) return undefined;
    const end = from + 4 + this.#bytes.readInt32LE(from);
    return { text: this.#bytes.toString("utf8", from + 4, end), end };
  }
}

/** A new page, or the memory with the stages of the following claims and its number. */
type ChannelMessage =
  | { readonly page: SharedArrayBuffer }
  | { readonly chunk: Uint8Array<SharedArrayBuffer>; readonly number: number };

/**
 * Brings the claims of the main thread to one lease thread, which reads them whenever its loop turns. They are written to shared
 * memory: a message would wake the thread for each of them, which costs both threads more than the rest of a short job.
 */
export class ClaimChannel {
  /** For the thread. */
  readonly port: MessagePort;
  readonly #sender: MessagePort;
  readonly #asleep = new Int32Array(new SharedArrayBuffer(4));
  #page: Page | undefined;
  #sentChunk: Uint8Array | undefined;
  #sentChunks = 0;

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
    if (this.#sentChunk !== chunk) {
      this.#sentChunks += 1;
      this.#post({ chunk, number: this.#sentChunks });
    }
    this.#sentChunk = chunk;
    // The thread reads the rest only if the jobs are not over by then.
    this.#append(`${this.#sentChunks},${claim.offset},${length};${JSON.stringify(claim)}`);
    // Written first: a thread that falls asleep now reads it before it does.
    return Atomics.load(this.#asleep, 0) === 1;
  }

  #append(text: string): void {
    if (this.#page?.append(text) === true) return;
    this.#page = Page.for(text);
    this.#page.append(text);
    this.#post({ page: this.#page.memory });
  }

  close(): void {
    this.#sender.close();
  }

  #post(message: ChannelMessage): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- A port between threads has no origin.
    this.#sender.postMessage(message);
  }
}

/** The thread's end of a channel. */
export class ClaimReceiver {
  readonly #port: MessagePort;
  readonly #isOver: (stage: number) => boolean;
  /** By number. Claims refer to the newest, or to an older one while they wait to be read. */
  readonly #chunks = new Map<number, Uint8Array<SharedArrayBuffer>>();
  /** The page that is read, and those that follow. */
  readonly #pages: Page[] = [];
  #from = 0;
  #received = 0;

  constructor(port: MessagePort, isOver: (stage: number) => boolean) {
    this.#port = port;
    this.#isOver = isOver;
  }

  /** How many claims have come. */
  get received(): number {
    return this.#received;
  }

  /** The next claim with a job that is not over yet; undefined if there is none. */
  next(): LeasedClaim | undefined {
    for (let text = this.#nextText(); text !== undefined; text = this.#nextText()) {
      this.#received += 1;
      const claim = this.#read(text);
      if (claim !== undefined) return claim;
    }
    return undefined;
  }

  #nextText(): string | undefined {
    let read = this.#pages[0]?.read(this.#from);
    if (read === undefined) {
      this.#receive();
      read = this.#pages[0]?.read(this.#from);
      // Nothing is written to a page after the next one was sent.
      while (read === undefined && this.#pages.length > 1) {
        this.#pages.shift();
        read = this.#pages[0]?.read(0);
        this.#from = 0;
      }
    }
    if (read !== undefined) this.#from = read.end;
    return read?.text;
  }

  #receive(): void {
    for (;;) {
      const received = receiveMessageOnPort(this.#port);
      if (received === undefined) return;
      const message = received.message as ChannelMessage;
      if ("page" in message) this.#pages.push(new Page(message.page));
      else this.#chunks.set(message.number, message.chunk);
    }
  }

  #read(text: string): LeasedClaim | undefined {
    const semicolon = text.indexOf(";");
    const [number = 0, offset = 0, count = 0] = text.slice(0, semicolon).split(",").map(Number);
    const chunk = this.#chunk(number);
    const stages = chunk.subarray(offset, offset + count);
    if (stages.every((_, index) => this.#isOver(Atomics.load(stages, index)))) return undefined;
    const claim = JSON.parse(text.slice(semicolon + 1)) as Omit<LeasedClaim, "chunk" | "stages">;
    return { ...claim, chunk, stages };
  }

  #chunk(number: number): Uint8Array<SharedArrayBuffer> {
    // It was sent before the claim was written.
    if (!this.#chunks.has(number)) this.#receive();
    for (const older of this.#chunks.keys()) if (older < number) this.#chunks.delete(older);
    const chunk = this.#chunks.get(number);
    if (chunk === undefined) throw new Error(`The memory ${number} of a claim's stages did not arrive.`);
    return chunk;
  }
}
