import type { Probes } from "../../health/server.ts";
import type { Probed } from "./messages.ts";
import type { Place, ProcessGroup } from "./process-group.ts";

/** A process that has not responded for so long is stuck. A handler that blocks its event loop for less is not. */
const mostSilentMs = 120_000;

/** The health of all processes as one. */
export function groupProbes(group: Pick<ProcessGroup, "places" | "isStopping">): Probes {
  const probed = async (): Promise<{ place: Place; probed: Probed | undefined }[]> =>
    await Promise.all(group.places.map(async (place) => ({ place, probed: await place.process?.probe() })));
  return {
    /** A place without a process is not a reason to end the others: a new process is on its way. */
    live: async () =>
      firstReason(await probed(), ({ place, probed: own }) => {
        if (own !== undefined) return own.live;
        const { process } = place;
        const isStuck = process !== undefined && performance.now() - process.respondedAt > mostSilentMs;
        return isStuck ? "does not respond" : "ok";
      }),
    ready: async () => {
      if (group.isStopping) return "draining";
      return firstReason(await probed(), ({ place, probed: own }) => {
        if (isStarting(place)) return "ok";
        if (place.process === undefined) return "waits to be started again";
        return own === undefined ? "does not respond" : own.ready;
      });
    },
    started: () =>
      group.places.every((place) => place.hasServed || isStarting(place)) ? "ok" : "not started",
    metrics: async () =>
      mergeMetrics(
        (await probed()).flatMap(({ place, probed: own }) =>
          own === undefined ? [] : [{ process: place.number, text: own.metrics }],
        ),
      ),
  };
}

/** A process more than there were: while it starts, the others do what they did before. */
function isStarting({ isAdded, hasServed }: Place): boolean {
  return isAdded && !hasServed;
}

type ProbedPlace = { place: Place; probed: Probed | undefined };

function firstReason(all: readonly ProbedPlace[], reasonOf: (one: ProbedPlace) => string): string {
  for (const one of all) {
    const reason = reasonOf(one);
    if (reason !== "ok") return `process ${one.place.number}: ${reason}`;
  }
  return "ok";
}

/** One page from the pages of several processes: each sample gets the label `process`, and each metric is described once. */
export function mergeMetrics(pages: readonly { process: number; text: string }[]): string {
  const metrics = new Map<string, { head: string[]; samples: string[] }>();
  for (const { process, text } of pages) {
    let current: { head: string[]; samples: string[] } | undefined;
    for (const line of text.split("\n")) {
      if (line === "" || line.startsWith("# EOF")) continue;
      if (!line.startsWith("#")) {
        current?.samples.push(labelled(line, process));
        continue;
      }
      const name = line.split(" ")[2] ?? "";
      current = metrics.get(name);
      if (current === undefined) metrics.set(name, (current = { head: [], samples: [] }));
      if (!current.head.includes(line)) current.head.push(line);
    }
  }
  const all = [...metrics.values()].flatMap(({ head, samples }) => head.concat(samples));
  return all.length === 0 ? "" : `${all.join("\n")}\n`;
}

/** The name of a metric ends at the first brace or space. */
function labelled(sample: string, process: number): string {
  const end = sample.search(/[{ ]/);
  const label = `process="${process}"`;
  const rest = sample.slice(end);
  return rest.startsWith("{}")
    ? `${sample.slice(0, end)}{${label}}${rest.slice(2)}`
    : rest.startsWith("{")
      ? `${sample.slice(0, end)}{${label},${rest.slice(1)}`
      : `${sample.slice(0, end)}{${label}}${rest}`;
}
