/**
 * The contracts: kinds, queues and payloads.
 *
 * Code that enqueues imports this file, without any handler code. Delays are shorter than a real platform's, so that
 * twenty seconds are enough to see a retry, a rescue and a reminder.
 */
import { defineDependency, defineJob, type JobDefinition } from "stint";
import { z } from "zod";

/** How many jobs of each queue run at once. */
export const slots = {
  embedding: 10, // many short calls over the network
  inference: 3, // expensive, and the provider limits calls
  ocr: 4, // half network, half CPU
  notification: 8, // short, and a reader is waiting
  agent: 2, // long, and the most expensive
  maintenance: 1, // not urgent
} as const;

export type Queue = keyof typeof slots;

export const queues = Object.keys(slots) as Queue[];

/** What the provider of study guides allows, over all workers. Jobs beyond it wait without a slot and without spending attempts. */
export const guideProvider = defineDependency("guide-provider", {
  concurrency: 3,
  rate: { limit: 180, per: "1m", burst: 6 },
});

export const embedNote = defineJob("embed-note", {
  queue: "embedding",
  payload: z.object({ noteId: z.string(), text: z.string() }),
  key: ({ noteId }) => `note:${noteId}`,
  // An import of a whole book makes the provider return 429 for a while. Extra attempts cost little.
  attempts: 20,
});

export const writeStudyGuide = defineJob("write-study-guide", {
  queue: "inference",
  payload: z.object({ guideId: z.string(), chapter: z.string(), reader: z.string() }),
  key: ({ guideId }) => `guide:${guideId}`,
  uses: [guideProvider],
});

export const readPage = defineJob("read-page", {
  queue: "ocr",
  payload: z.object({ scanId: z.string(), file: z.string(), reader: z.string() }),
  timeout: "20s",
  // One reader with many scans must not hold all slots.
  limits: [{ name: "reader", key: ({ reader }) => reader, max: 2 }],
});

export const notify = defineJob("notify", {
  queue: "notification",
  payload: z.object({ reader: z.string(), text: z.string() }),
  priority: -10, // before reminders and digests
});

/** Enqueued with a delay; each one that runs enqueues the next. */
export const remindReader = defineJob("remind-reader", {
  queue: "notification",
  payload: z.object({ reader: z.string(), chapter: z.number().int().positive() }),
});

/** Enqueued with every note, and deduplicated: a reader gets one digest for many notes. */
export const sendDigest = defineJob("send-digest", {
  queue: "notification",
  payload: z.object({ reader: z.string() }),
  key: ({ reader }) => `digest:${reader}`,
});

/** Takes seconds, so a worker can be killed in the middle of it. See rescue-story.ts. */
export const researchTopic = defineJob("research-topic", {
  queue: "agent",
  payload: z.object({ topic: z.string() }),
  lease: "3s", // the default is 30 s; shorter means rescued sooner, and more renewals
});

/** Runs inside one transaction, which also records its success. */
export const auditNotes = defineJob("audit-notes", {
  queue: "maintenance",
  payload: z.object({}),
  result: z.object({ notes: z.number(), waitingForVector: z.number() }),
  atomic: true,
});

const definitions: readonly JobDefinition[] = [
  embedNote,
  writeStudyGuide,
  readPage,
  notify,
  remindReader,
  sendDigest,
  researchTopic,
  auditNotes,
];

const queueByKind = new Map(definitions.map(({ kind, queue }) => [kind, queue as Queue]));

export function queueOf(kind: string): Queue {
  const queue = queueByKind.get(kind);
  if (queue === undefined) throw new Error(`jobs.ts defines no kind "${kind}"`);
  return queue;
}
