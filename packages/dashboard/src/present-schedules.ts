/** Schedules as they may leave the server: redacted, without payloads that the visitor may not see. */
import type { Schedule, ScheduleDetail } from "stint";
import type { ScheduleRows, ScheduleView } from "stint/inspect";
import type { Visitor } from "./access.ts";
import { fewAtATime } from "./few-at-a-time.ts";
import { preview } from "./preview.ts";
import { largestShown } from "./present.ts";
import type { Redactor } from "./redact.ts";
import { Secrets } from "./secrets.ts";

export type PresentedSchedule = ScheduleView & {
  /** The visitor may not see the payload; it is null. */
  readonly hidden?: true;
  /** The payload is too large: this is its beginning. */
  readonly cut?: true;
};

export function presentSchedule(view: ScheduleView, visitor: Visitor, redactor: Redactor): PresentedSchedule {
  const secrets = new Secrets();
  const payload = redactor.value("payload", view.schedule.payload, secrets);
  // Names and rules stay as they are: the buttons of the screen need them.
  const { tenant, error, audit } = secrets.outOf({
    tenant: view.schedule.tenant,
    error: view.schedule.error,
    audit: view.audit,
  });
  const words = { ...view, audit, schedule: { ...view.schedule, tenant, error, payload: null } };
  if (!visitor.can.payloads) return { ...words, hidden: true };
  const shown = secrets.outOfData(payload);
  const cut = (JSON.stringify(shown) ?? "null").length > largestShown;
  return {
    ...words,
    schedule: { ...words.schedule, payload: cut ? preview(shown) : shown },
    ...(cut ? { cut } : {}),
  };
}

/**
 * A page of schedules. A tenant or an error may repeat what is redacted in the payload, so `get` reads the payloads of schedules that have
 * either.
 */
export async function presentSchedules(
  page: ScheduleRows,
  redactor: Redactor,
  get: (name: string) => Promise<ScheduleDetail | undefined>,
): Promise<ScheduleRows> {
  if (!redactor.hidesData) return page;
  const schedules = await fewAtATime(page.schedules, async (row) => {
    if (row.tenant === null && row.error === null) return row;
    const found = await get(row.name);
    // Removed since: the values to redact are unknown.
    return found === undefined
      ? { ...row, tenant: null, error: null }
      : { ...row, ...wordsOf(row, found.payload, redactor) };
  });
  return { ...page, schedules };
}

function wordsOf(
  { tenant, error }: Schedule,
  payload: unknown,
  redactor: Redactor,
): Pick<Schedule, "tenant" | "error"> {
  const secrets = new Secrets();
  redactor.value("payload", payload, secrets);
  return secrets.outOf({ tenant, error });
}
