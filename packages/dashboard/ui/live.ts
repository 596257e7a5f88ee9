/**
 * Keeps what is on the screen fresh. The server's events carry the health; each of them is also the tick at which other visible
 * queries are asked again, each at its own pace. Without events there is a poll. Nothing is asked while nobody looks: the page is
 * hidden, or a person paused it.
 */
import type { QueryClient } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import { address, api, ApiError } from "./api.ts";

/** `connecting` at first, `live` by events, `polling` without them, `away` when nothing answers, `paused` by a person. */
export type Connection = "connecting" | "live" | "polling" | "away" | "paused";

const pollMs = 5_000;
/** How long to wait for the first or the next event, and before events are tried again once they failed. */
const patienceMs = 10_000;
const retryEventsMs = 30_000;

let paused = false;
let connection: Connection = "connecting";
/** Why nothing fresh comes, in the server's words where it has any. */
let trouble = "";
const listeners = new Set<() => void>();

function show(next: Connection, why = ""): void {
  if (next === connection && why === trouble) return;
  connection = next;
  trouble = why;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useConnection(): Connection {
  return useSyncExternalStore(subscribe, () => connection);
}

/** Empty unless the connection is `away`. */
export function useTrouble(): string {
  return useSyncExternalStore(subscribe, () => trouble);
}

let apply: () => void = () => {};

/** Stop asking until it is called again with false. Asked-for data (a new page, another filter) still comes. */
export function setPaused(next: boolean): void {
  paused = next;
  apply();
}

export function togglePaused(): void {
  setPaused(!paused);
}

/** Begin. Called once, when the page starts. */
export function startLive(client: QueryClient): void {
  let events: EventSource | undefined;
  let poll: ReturnType<typeof setInterval> | undefined;
  let patience: ReturnType<typeof setTimeout> | undefined;
  let retryEvents: ReturnType<typeof setTimeout> | undefined;

  const stop = () => {
    events?.close();
    events = undefined;
    clearInterval(poll);
    poll = undefined;
    clearTimeout(patience);
    clearTimeout(retryEvents);
  };

  const listen = () => {
    events?.close();
    const source = new EventSource(address("events"));
    events = source;
    const heard = () => {
      clearInterval(poll);
      poll = undefined;
      // A stream that is open and says nothing looks healthy; asking shows whether it is.
      clearTimeout(patience);
      patience = setTimeout(startPoll, patienceMs);
    };
    source.addEventListener("health", (event: MessageEvent<string>) => {
      heard();
      client.setQueryData(["health"], JSON.parse(event.data));
      show("live");
      refresh(client, false);
    });
    // The server is there and cannot read the figures: the database does not answer, or the schema is another one.
    source.addEventListener("problem", (event: MessageEvent<string>) => {
      heard();
      show("away", (JSON.parse(event.data) as { message: string }).message);
    });
    source.addEventListener("error", () => {
      // The browser tries again by itself unless the answer was not a stream; until then the poll stands in.
      startPoll();
      if (source.readyState === EventSource.CLOSED) {
        clearTimeout(retryEvents);
        retryEvents = setTimeout(listen, retryEventsMs);
      }
    });
  };

  const pollOnce = async () => {
    try {
      client.setQueryData(["health"], await api.health());
      if (poll !== undefined) show("polling");
      refresh(client, false);
    } catch (error) {
      if (poll !== undefined) show("away", error instanceof ApiError ? error.message : String(error));
    }
  };

  const startPoll = () => {
    if (poll !== undefined) return;
    poll = setInterval(() => void pollOnce(), pollMs);
    void pollOnce();
  };

  apply = () => {
    stop();
    if (paused) return show("paused");
    if (document.hidden) return;
    show("connecting");
    refresh(client, true);
    patience = setTimeout(startPoll, patienceMs);
    listen();
  };

  document.addEventListener("visibilitychange", () => apply());
  apply();
}

/** Ask again for what is on the screen and older than its pace; a query says its pace as `meta.everyMs`. */
function refresh(client: QueryClient, all: boolean): void {
  const now = Date.now();
  void client.invalidateQueries({
    refetchType: "active",
    predicate: ({ queryKey, meta, state }) => {
      if (queryKey[0] === "health") return all;
      const every = meta?.["everyMs"];
      return typeof every === "number" && state.fetchStatus === "idle" && state.dataUpdatedAt + every <= now;
    },
  });
}
