/** Reports to `onAudit` that a visitor saw a payload. The screen refreshes every few seconds; that counts as one view. */
import type { Visitor } from "./access.ts";

/** Passed to `onAudit`. Actions on jobs are in the audit log of each job. */
export type AuditEvent = {
  readonly action: "payload-seen";
  /** Null: a local user, or `authorize` returned no name. */
  readonly user: string | null;
  /** The job, or the schedule, whose payload it is; the other is null. */
  readonly job: string | null;
  readonly schedule: string | null;
  readonly kind: string;
  readonly at: Date;
};

export type OnAudit = (event: AuditEvent) => void | Promise<void>;

/** A payload that is about to be shown. */
type Seen = { readonly job?: string; readonly schedule?: string; readonly kind: string };

const oneViewMs = 10 * 60_000;
const most = 10_000;

export class PayloadAudit {
  readonly #onAudit: OnAudit | undefined;
  readonly #reportedAt = new Map<string, number>();
  readonly #now: () => number;

  constructor(onAudit: OnAudit | undefined, now = () => performance.now()) {
    this.#onAudit = onAudit;
    this.#now = now;
  }

  /** Rejects if `onAudit` fails: the payload must then not be shown. */
  async record({ user }: Visitor, seen: Seen): Promise<void> {
    if (this.#onAudit === undefined) return;
    const { job = null, schedule = null, kind } = seen;
    const name = JSON.stringify([user, job, schedule]);
    const now = this.#now();
    const reported = this.#reportedAt.get(name);
    if (reported !== undefined && now - reported < oneViewMs) return;
    try {
      await this.#onAudit({ action: "payload-seen", user, job, schedule, kind, at: new Date() });
    } catch (cause) {
      // Wrapped: a code such as ECONNREFUSED would be reported as an unavailable database.
      throw new Error("onAudit failed, so the payload is not shown", { cause });
    }
    this.#reportedAt.delete(name);
    this.#reportedAt.set(name, now);
    if (this.#reportedAt.size <= most) return;
    const [oldest] = this.#reportedAt.keys();
    if (oldest !== undefined) this.#reportedAt.delete(oldest);
  }
}
