/** Tells whoever wants to know that somebody saw a payload. The screen asks every few seconds; that is one look. */
import type { Job } from "stint";
import type { Visitor } from "./access.ts";

/** Told to `onAudit`. What is done to jobs is in the audit of each job. */
export type AuditEvent = {
  readonly action: "payload-seen";
  /** Null: whoever sits at this machine, or nobody said. */
  readonly user: string | null;
  readonly job: string;
  readonly kind: string;
  readonly at: Date;
};

export type OnAudit = (event: AuditEvent) => void | Promise<void>;

const oneLookMs = 10 * 60_000;
const most = 10_000;

export class PayloadAudit {
  readonly #tell: OnAudit | undefined;
  readonly #told = new Map<string, number>();
  readonly #now: () => number;

  constructor(tell: OnAudit | undefined, now = () => performance.now()) {
    this.#tell = tell;
    this.#now = now;
  }

  /** Rejects where it could not be told: the payload must then not be shown. */
  async saw({ user }: Visitor, { id, kind }: Pick<Job, "id" | "kind">): Promise<void> {
    if (this.#tell === undefined) return;
    const name = JSON.stringify([user, id]);
    const now = this.#now();
    const told = this.#told.get(name);
    if (told !== undefined && now - told < oneLookMs) return;
    try {
      await this.#tell({ action: "payload-seen", user, job: id, kind, at: new Date() });
    } catch (cause) {
      // By a code of its own, such as ECONNREFUSED, it would be taken for the database being away.
      throw new Error("onAudit failed, so the payload is not shown", { cause });
    }
    this.#told.delete(name);
    this.#told.set(name, now);
    if (this.#told.size <= most) return;
    const [oldest] = this.#told.keys();
    if (oldest !== undefined) this.#told.delete(oldest);
  }
}
