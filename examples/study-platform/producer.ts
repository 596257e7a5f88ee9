/** The readers. Each action is one transaction: business rows and jobs, both or neither. */
import type { Pool, PoolClient } from "pg";
import { entry, type Stint } from "stint";
import type { Feed } from "./feed.ts";
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

type Action = (tx: PoolClient) => Promise<void>;

const readers = ["ada", "boris", "chioma", "dewei", "elif", "farid", "greta", "night-owl"];
const subjects = ["Biology", "Algebra", "Chemistry", "World History"];
const topics = ["photosynthesis", "prime numbers", "the periodic table", "the Silk Road", "plate tectonics"];

export class Producer {
  readonly #pool: Pool;
  readonly #stint: Stint;
  readonly #feed: Feed;
  readonly #underWay = new Set<Promise<void>>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #actions = 0;

  constructor(pool: Pool, stint: Stint, feed: Feed) {
    this.#pool = pool;
    this.#stint = stint;
    this.#feed = feed;
  }

  start(): void {
    // More research than the agent queue has slots for.
    for (let count = 0; count < 6; count++) this.#do(this.#askForResearch);
    for (const action of [this.#importBook, this.#askForGuide, this.#audit]) this.#do(action);
    this.#every(55, () => this.#do(this.#nextAction()));
    this.#every(2_000, () => this.#do(this.#audit));
    this.#every(3_000, () => this.#do(this.#changeMind));
    this.#every(10_000, () => this.#do(this.#importBook));
  }

  /** Resolves when no transaction is open. */
  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await Promise.all(this.#underWay);
  }

  /** Mostly notes and comments, sometimes a larger action. */
  #nextAction(): Action {
    this.#actions += 1;
    if (this.#actions % 21 === 0) return this.#askForResearch;
    if (this.#actions % 19 === 0) return this.#beginReadingPlan;
    if (this.#actions % 8 === 0) return this.#askForGuide;
    if (this.#actions % 5 === 0) return this.#scanPage;
    return this.#actions % 3 === 0 ? this.#comment : this.#saveNote;
  }

  readonly #saveNote: Action = async (tx) => {
    const reader = oneOf(readers);
    const text = `A thought of ${reader}`;
    const noteId = await insert(tx, "insert into study_demo.note (reader, text) values ($1, $2)", [
      reader,
      text,
    ]);
    await enqueueWithReceipt(this.#stint, tx, [
      entry(embedNote, { noteId, text }, { tenant: reader }),
      // One digest for all notes a reader saves in three seconds.
      entry(sendDigest, { reader }, { delay: "3s", dedupe: { until: "started" } }),
    ]);
  };

  readonly #comment: Action = async (tx) => {
    const text = "New reply to your note";
    await enqueueWithReceipt(this.#stint, tx, [entry(notify, { reader: oneOf(readers), text })]);
  };

  readonly #askForGuide: Action = async (tx) => {
    // Every ninth guide is for a chapter that does not exist; its job ends dead.
    const number = this.#actions % 9 === 0 ? 99 : 1 + Math.floor(Math.random() * 40);
    const chapter = `${oneOf(subjects)} ${number}`;
    const guideId = await insert(tx, "insert into study_demo.study_guide (chapter) values ($1)", [chapter]);
    const reader = oneOf(readers);
    await enqueueWithReceipt(this.#stint, tx, [
      entry(writeStudyGuide, { guideId, chapter, reader }, { tenant: reader }),
    ]);
  };

  readonly #scanPage: Action = async (tx) => {
    const sort = this.#sortOfPage();
    const file = `${sort}-${this.#actions}.jpg`;
    const scanId = await insert(tx, "insert into study_demo.scan (file) values ($1)", [file]);
    const reader = oneOf(readers);
    await enqueueWithReceipt(this.#stint, tx, [
      entry(readPage, { scanId, file, reader }, { tenant: reader }),
    ]);
  };

  /** Some pages are empty and fail, some are maps and take long, some are handwriting and need a review. */
  #sortOfPage(): string {
    if (this.#actions % 17 === 0) return "blank";
    if (this.#actions % 67 === 0) return "map";
    return this.#actions % 11 === 0 ? "handwriting" : "page";
  }

  readonly #beginReadingPlan: Action = async (tx) => {
    const first = entry(remindReader, { reader: oneOf(readers), chapter: 1 }, { delay: "2s" });
    await enqueueWithReceipt(this.#stint, tx, [first]);
  };

  readonly #askForResearch: Action = async (tx) => {
    await enqueueWithReceipt(this.#stint, tx, [entry(researchTopic, { topic: oneOf(topics) })]);
  };

  readonly #audit: Action = async (tx) => {
    await enqueueWithReceipt(this.#stint, tx, [entry(auditNotes, {})]);
  };

  /** Many notes in one transaction, which cause more calls than the embedding provider allows at once. */
  readonly #importBook: Action = async (tx) => {
    const texts = Array.from({ length: 100 }, (_, index) => `Paragraph ${index + 1}`);
    const { rows } = await tx.query<{ id: string; text: string }>(
      "insert into study_demo.note (reader, text) select 'library', unnest($1::text[]) returning id::text, text",
      [texts],
    );
    const entries = rows.map(({ id, text }) =>
      // A separate tenant, so that the dashboard shows its share of the queue.
      entry(embedNote, { noteId: id, text }, { priority: 10, tenant: "library" }),
    );
    await enqueueWithReceipt(this.#stint, tx, entries);
    this.#feed.add("plain", `a book is imported: ${entries.length} notes and their jobs in one transaction`);
  };

  /** The reader closes the tab before the commit: neither the note nor its jobs exist. */
  readonly #changeMind: Action = async (tx) => {
    await this.#saveNote(tx);
    this.#feed.add("plain", "a transaction is rolled back: the note and its jobs were never there");
    throw new RolledBack();
  };

  #every(ms: number, act: () => void): void {
    this.#timers.add(setInterval(act, ms));
  }

  #do(action: Action): void {
    const work = this.#transaction(action).catch((error: unknown) => {
      if (!(error instanceof RolledBack)) this.#feed.add("bad", `producer: ${(error as Error).message}`);
    });
    this.#underWay.add(work);
    void work.finally(() => this.#underWay.delete(work));
  }

  async #transaction(action: Action): Promise<void> {
    const tx = await this.#pool.connect();
    try {
      await tx.query("begin");
      await action(tx);
      await tx.query("commit");
    } catch (error) {
      await tx.query("rollback").catch(() => undefined);
      throw error;
    } finally {
      tx.release();
    }
  }
}

class RolledBack extends Error {}

async function insert(tx: PoolClient, text: string, values: unknown[]): Promise<string> {
  const { rows } = await tx.query<{ id: string }>(`${text} returning id::text`, values);
  return rows[0]?.id ?? "";
}

function oneOf(choices: readonly string[]): string {
  return choices[Math.floor(Math.random() * choices.length)] ?? "";
}
