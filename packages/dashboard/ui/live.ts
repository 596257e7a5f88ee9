/**
 * Keeps the screen fresh. The server's events carry the health; each event also refreshes the other visible queries, each at its own
 * pace. Without events the page polls. A hidden or paused page requests nothing.
 */
import type { QueryClient } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import { address, api, ApiError } from "./api.ts";
import { HealthStream } from "./health-stream.ts";

/**
 * `connecting` at first, `live` by events, `polling` without them, `silent` when the server does not respond, `away` when it responds
 * without fresh figures, `paused` by a person.
 */
export type Connection = "connecting" | "live" | "polling" | "silent" | "away" | "paused";

const pollMs = 5_000;
/** The server sends something every few seconds. After this much silence it does not respond. */
const silenceMs = 10_000;
/** Figures older than this are no longer live, although the server responds. */
const staleMs = 20_000;
/** A poll that takes longer has failed. */
const pollTimeoutMs = 8_000;
const retryEventsMs = 30_000;

let paused = false;
let connection: Connection = "connecting";
/** Why there are no fresh figures, in the server's words if it sent any. */
let problem = "";
/** When the server last responded, or last sent fresh figures. */
let since = Date.now();
const listeners = new Set<() => void>();

function show(next: Connection, why = "", at = Date.now()): void {
  if (next === connection && why === problem) return;
  // The first moment of an outage counts, whatever else goes wrong during it.
  if (next !== connection) since = at;
  connection = next;
  problem = why;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useConnection(): Connection {
  return useSyncExternalStore(subscribe, () => connection);
}

/** Empty unless the connection is `silent` or `away`. */
export function useProblem(): string {
  return useSyncExternalStore(subscribe, () => problem);
}

/** Since when the connection is what it is: while it is `silent` or `away`, when the last news came. */
export function useSince(): number {
  return useSyncExternalStore(subscribe, () => since);
}

let apply: () => void = () => {};

/** Stops live updates until called with false. Requests of the user (a new page, another filter) still run. */
export function setPaused(next: boolean): void {
  paused = next;
  apply();
}

export function togglePaused(): void {
  setPaused(!paused);
}

/** Called once, when the page starts. */
export function startLive(client: QueryClient): void {
  let events: EventSource | undefined;
  let poll: ReturnType<typeof setInterval> | undefined;
  let silence: ReturnType<typeof setTimeout> | undefined;
  let retryEvents: ReturnType<typeof setTimeout> | undefined;
  let polling: AbortController | undefined;
  let heardAt = Date.now();
  let freshAt = Date.now();
  let listenedAt = 0;

  const stop = () => {
    events?.close();
    events = undefined;
    stopPoll();
    clearTimeout(silence);
    clearTimeout(retryEvents);
  };

  const stopPoll = () => {
    clearInterval(poll);
    poll = undefined;
    polling?.abort();
    polling = undefined;
  };

  const watch = () => {
    clearTimeout(silence);
    silence = setTimeout(fellSilent, silenceMs);
  };

  // To the browser a silent open stream looks healthy, for as long as the server hangs.
  const fellSilent = () => {
    if (connection !== "connecting") show("silent", "", heardAt);
    startPoll();
  };

  /** An event of any sort arrived. */
  const onEvent = () => {
    heardAt = Date.now();
    watch();
  };

  const fresh = (health: unknown) => {
    freshAt = Date.now();
    client.setQueryData(["health"], health);
    refresh(client, false);
  };

  const listen = () => {
    events?.close();
    listenedAt = Date.now();
    const source = new EventSource(address("events"));
    events = source;
    const stream = new HealthStream();
    const news = (health: unknown) => {
      onEvent();
      if (health === undefined) return;
      stopPoll();
      fresh(health);
      show("live");
    };
    source.addEventListener("health", (event: MessageEvent<string>) => news(stream.begin(event.data)));
    source.addEventListener("health-change", (event: MessageEvent<string>) =>
      news(stream.change(event.data)),
    );
    source.addEventListener("ping", () => {
      onEvent();
      if (Date.now() - freshAt > staleMs)
        show("away", "The server responds, but without fresh figures.", freshAt);
      else if (connection === "silent") show("live");
    });
    // The server cannot read the figures: the database does not respond, or its schema is of another version.
    source.addEventListener("problem", (event: MessageEvent<string>) => {
      onEvent();
      stopPoll();
      show("away", (JSON.parse(event.data) as { message: string }).message, freshAt);
    });
    source.addEventListener("error", () => {
      // The browser reconnects unless the response was not a stream. The page polls until then.
      startPoll();
      if (source.readyState === EventSource.CLOSED) {
        clearTimeout(retryEvents);
        retryEvents = setTimeout(listen, retryEventsMs);
      }
    });
  };

  const pollOnce = async () => {
    // One at a time: a server that hangs must not collect requests.
    if (polling !== undefined) return;
    const own = new AbortController();
    polling = own;
    try {
      const health = await api.health(own.signal, pollTimeoutMs);
      if (polling !== own) return;
      heardAt = Date.now();
      show("polling");
      fresh(health);
      // The server responds and its stream does not: the connection is dead.
      if (events?.readyState === EventSource.OPEN && Date.now() - listenedAt > retryEventsMs / 2) listen();
    } catch (error) {
      if (polling !== own) return;
      const gone = !(error instanceof ApiError) || error.status === 0;
      if (gone) show("silent", "", heardAt);
      else show("away", error.message, freshAt);
    } finally {
      if (polling === own) polling = undefined;
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
    heardAt = freshAt = Date.now();
    refresh(client, true);
    watch();
    listen();
  };

  document.addEventListener("visibilitychange", () => apply());
  apply();
}

/** Refetches active queries that are older than their pace, `meta.everyMs`. */
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
