/**
 * What each job does. A handler is plain code: it returns when it is done and throws when it failed.
 *
 * All handlers pass `signal` on. When the worker stops or loses the lease, calls to providers are aborted, because their
 * result could not be recorded.
 */
import {
  cancel,
  handle,
  entry,
  park,
  PermanentError,
  RateLimitedError,
  snooze,
  type Handler,
  type Middleware,
  type Stint,
} from "stint";
import {
  auditNotes,
  embedNote,
  notify,
  readPage,
  remindReader,
  researchTopic,
  sendDigest,
  writeStudyGuide,
} from "./jobs.ts";
import { enqueueWithReceipt } from "./receipts.ts";
import { embed, ProviderError, push, recognize, think, writeGuide } from "./services.ts";

export function allHandlers(stint: Stint): Handler[] {
  return [
    handle(embedNote, async ({ payload, signal, complete }) => {
      const vector = await embed(payload.text, signal);
      // The vector and the job's success commit together, or neither does.
      await complete(async (tx) => {
        await tx.query("update study_demo.note set vector = $2 where id = $1", [payload.noteId, vector]);
      });
    }),

    handle(writeStudyGuide, async ({ payload, signal, complete }) => {
      const body = await writeGuide(payload.chapter, signal);
      await complete(async (tx) => {
        await tx.query("update study_demo.study_guide set body = $2 where id = $1", [payload.guideId, body]);
        const text = `Your guide to ${payload.chapter} is ready`;
        await enqueueWithReceipt(stint, tx, [entry(notify, { reader: payload.reader, text })]);
      });
    }),

    handle(readPage, async ({ payload, createdAt, signal, complete }) => {
      const text = await recognize(payload.file, signal);
      // Handwriting needs a review by a person. Parking spends no attempt; `runNow`, or the time in `until`, lifts it.
      const isNew = Date.now() - createdAt.getTime() < 6_000;
      if (payload.file.startsWith("handwriting") && isNew)
        return park("review", { note: "handwriting: check the text", until: "6s" });
      // A page becomes a note, and the next job of the chain embeds it: enqueued in the same commit.
      return await complete(async (tx) => {
        const { rows } = await tx.query(
          "insert into study_demo.note (reader, text) values ($1, $2) returning id::text",
          [payload.reader, text],
        );
        const noteId = rows[0]?.["id"] as string;
        await tx.query("update study_demo.scan set note = $2 where id = $1", [payload.scanId, noteId]);
        await enqueueWithReceipt(stint, tx, [entry(embedNote, { noteId, text })]);
      });
    }),

    handle(notify, async ({ payload, createdAt, signal }) => {
      // This reader wants notifications later. Snoozing delays the job without spending an attempt.
      const ageMs = Date.now() - createdAt.getTime();
      if (payload.reader === "night-owl" && ageMs < 3_000) return snooze("3s");
      return await push(payload.reader, payload.text, signal);
    }),

    handle(remindReader, async ({ payload: { reader, chapter }, signal, complete }) => {
      if (chapter > 3) return cancel("the reader paused the plan");
      await push(reader, `Time for chapter ${chapter}`, signal);
      return await complete(async (tx) => {
        const next = entry(remindReader, { reader, chapter: chapter + 1 }, { delay: "4s" });
        await enqueueWithReceipt(stint, tx, [next]);
      });
    }),

    handle(sendDigest, async ({ payload, signal }) => {
      await push(payload.reader, "What you noted lately", signal);
    }),

    handle(auditNotes, async ({ tx }) => {
      const { rows } = await tx.query(
        `select count(*)::int as notes, (count(*) filter (where vector is null))::int as "waitingForVector"
         from study_demo.note`,
      );
      return rows[0] as { notes: number; waitingForVector: number };
    }),

    ...agentHandlers(),
  ];
}

/** The handlers of the helper worker in doomed-worker.ts. */
export function agentHandlers(): Handler[] {
  return [
    handle(researchTopic, async ({ signal }) => {
      for (let question = 1; question <= 4; question++) await think(signal);
    }),
  ];
}

/** Maps the responses of providers to outcomes of jobs, once for every handler. */
export const explainProviderErrors: Middleware = async (_context, next) => {
  try {
    return await next();
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    const { status, message, retryAfterMs, cause = error } = error;
    if (retryAfterMs !== undefined) throw new RateLimitedError({ retryAfter: retryAfterMs, message, cause });
    // 4xx: the same request would always fail. 5xx: a later request may succeed, so the error is retried.
    if (status < 500) throw new PermanentError(message, { cause });
    throw error;
  }
};
