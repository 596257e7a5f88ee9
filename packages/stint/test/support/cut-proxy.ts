import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { onTestFinished } from "vitest";
import { testDatabaseUrl } from "./database.ts";

/**
 * "unsent": the statement never reaches the server. "unanswered": the server executes and commits it, and its reply
 * never reaches the client. "held": it never reaches the server, and the connection stays open, as that of a frozen one.
 */
export type Cut = "unsent" | "unanswered" | "held";

/** Marker of the COMMIT that ends a handler's transaction: a separate message. Other statements may contain the word. */
export const commitOfHandler = "Q\0\0\0\u000bcommit\0";

/** Bytes that are delayed. `resetClient` sends a TCP RST to their client; `release` still passes them on. */
export type Held = { release(): Promise<void>; resetClient(): void };

/** A proxy to the test database that can cut the connection at a chosen statement. */
export type CutProxy = {
  readonly url: string;
  /**
   * End the connection at the next statement whose message contains the marker. Resolves when that has happened. With `reset` the
   * client gets a TCP RST in place of a FIN.
   */
  cutAt(marker: string, cut: Cut, options?: { reset?: boolean }): Promise<void>;
  /**
   * Delays what a connection sends, from its next statement with the marker on, as a stalled network does. Resolves when
   * that has happened. `release` passes it on, even if its client is gone, and resolves when the server has processed it.
   * With `all`, what every connection sends is delayed from that moment on.
   */
  holdAt(marker: string, options?: { all?: boolean }): Promise<Held>;
  /**
   * Pass on the next statement with the marker, and from then on nothing that the server sends on that connection, as one that
   * is half open. Resolves when the server has replied to the statement.
   */
  muteAt(marker: string): Promise<void>;
  /** End the connections that are mute. */
  endMuted(): void;
  /** The number of client messages with the marker. */
  count(marker: string): number;
  /** Send a TCP RST to the client and the server of every connection. New ones are accepted. */
  resetAll(): void;
  /** End every connection, and refuse new ones until `up`. */
  down(): void;
  up(): void;
};

type Plan = { marker: string; cut: Cut; reset: boolean; done: () => void };
type Pair = { client: Socket; server: Socket; held?: Buffer[]; muted?: boolean };
type Mute = { marker: string; done: () => void };
type Hold = { marker: string; all: boolean; done: (held: Held) => void };

/** Statements are recognised by their text, or by the name they were prepared under (`schema.enqueue`). */
export async function startCutProxy(url = testDatabaseUrl()): Promise<CutProxy> {
  const target = new URL(url);
  const pairs = new Set<Pair>();
  const received: Buffer[] = [];
  let plan: Plan | undefined;
  let hold: Hold | undefined;
  let mute: Mute | undefined;
  let holdsAll = false;
  let isUp = true;

  const end = (pair: Pair, reset = false): void => {
    if (reset) pair.client.resetAndDestroy();
    else pair.client.destroy();
    pair.server.destroy();
    pairs.delete(pair);
  };

  /** Delayed bytes reach the server even if their client has gone. */
  const leave = (pair: Pair, socket: Socket): void => {
    if (pair.held === undefined || socket === pair.server) end(pair);
  };
  const release = async (pair: Pair): Promise<void> => {
    const held = Buffer.concat(pair.held ?? []);
    delete pair.held;
    await new Promise<void>((resolve) => {
      let reply = Buffer.alloc(0);
      pair.server.on("data", (data: Buffer) => {
        reply = Buffer.concat([reply, data]);
        if (isComplete(reply)) resolve();
      });
      pair.server.on("close", () => resolve());
      pair.server.write(held);
      // The server processes the bytes, and then finds that its client has gone.
      if (pair.client.destroyed) pair.server.end();
    });
    if (pair.client.destroyed) end(pair);
  };

  const releaseAll = async (): Promise<void> => {
    holdsAll = false;
    await Promise.all([...pairs].filter((pair) => pair.held !== undefined).map(release));
  };

  const listener = createServer((client) => {
    if (!isUp) {
      client.resetAndDestroy();
      return;
    }
    const pair: Pair = { client, server: connect(Number(target.port), target.hostname) };
    pairs.add(pair);
    for (const socket of [pair.client, pair.server]) {
      // A message in several parts would otherwise wait for the other side's delayed acknowledgement.
      socket.setNoDelay(true);
      socket.on("error", () => leave(pair, socket));
      socket.on("close", () => leave(pair, socket));
    }

    let unanswered: Plan | undefined;
    let muting: Mute | undefined;
    let reply: Buffer = Buffer.alloc(0);
    client.on("data", (data: Buffer) => {
      received.push(data);
      if (hold !== undefined && pair.held === undefined && data.includes(hold.marker)) {
        const { done, all } = hold;
        hold = undefined;
        pair.held = [];
        holdsAll = all;
        done({
          release: () => (all ? releaseAll() : release(pair)),
          resetClient: () => void client.resetAndDestroy(),
        });
      }
      if (holdsAll) pair.held ??= [];
      if (mute !== undefined && data.includes(mute.marker)) {
        muting = mute;
        mute = undefined;
        pair.muted = true;
      }
      if (pair.held !== undefined) {
        pair.held.push(data);
        return;
      }
      if (plan !== undefined && data.includes(plan.marker)) {
        const met = plan;
        plan = undefined;
        if (met.cut !== "unanswered") {
          if (met.cut === "unsent") end(pair, met.reset);
          met.done();
          return;
        }
        unanswered = met;
      }
      pair.server.write(data);
    });
    pair.server.on("data", (data: Buffer) => {
      if (pair.muted === true) {
        reply = Buffer.concat([reply, data]);
        if (isComplete(reply)) muting?.done();
        return;
      }
      if (unanswered === undefined) {
        client.write(data);
        return;
      }
      reply = Buffer.concat([reply, data]);
      if (!isComplete(reply)) return;
      end(pair, unanswered.reset);
      unanswered.done();
    });
  });
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  onTestFinished(() => {
    for (const pair of pairs) end(pair);
    listener.close();
  });

  const own = new URL(url);
  own.hostname = "127.0.0.1";
  own.port = String((listener.address() as AddressInfo).port);
  return {
    url: own.href,
    async cutAt(marker, cut, { reset = false } = {}) {
      await new Promise<void>((done) => (plan = { marker, cut, reset, done }));
    },
    async holdAt(marker, { all = false } = {}) {
      return await new Promise((done) => (hold = { marker, all, done }));
    },
    async muteAt(marker) {
      await new Promise<void>((done) => (mute = { marker, done }));
    },
    endMuted() {
      for (const pair of pairs) if (pair.muted === true) end(pair);
    },
    count: (marker) => received.filter((data) => data.includes(marker)).length,
    resetAll() {
      for (const pair of pairs) {
        pair.server.resetAndDestroy();
        end(pair, true);
      }
    },
    down() {
      isUp = false;
      for (const pair of pairs) end(pair);
    },
    up() {
      isUp = true;
    },
  };
}

/** Whether the server's messages go up to ReadyForQuery, which it sends after a statement has been committed. */
function isComplete(messages: Buffer): boolean {
  let at = 0;
  while (at + 5 <= messages.length) {
    if (messages[at] === 0x5a) return true;
    at += 1 + messages.readInt32BE(at + 1);
  }
  return false;
}
