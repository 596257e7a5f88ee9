/** Jobs as they may leave the server: redacted, without what the visitor may not see, and not too large to show. */
import type { Job, JobDetail, JobFilter, JobPage, JobRow, OperationPreview } from "stint";
import type { Visitor } from "./access.ts";
import { Problem } from "./problem.ts";
import type { Redactor } from "./redact.ts";
import { Secrets } from "./secrets.ts";

/** Beyond this a browser has more to do with a value than anybody has to read. */
const largestShown = 256 * 1024;

export type ShownDetail = JobDetail & {
  /** The visitor may not see payload and result; both are null. */
  readonly hidden?: true;
  /** Which of them were too large, and are a text with their beginning. */
  readonly cut?: readonly ("payload" | "result")[];
};

export function showDetail(detail: JobDetail, visitor: Visitor, redactor: Redactor): ShownDetail {
  const { job } = detail;
  const { payload, result, meta, log, secrets } = redact(job, redactor);
  // What was hidden in one place must not be read in another: errors quote their input, and the words made for the screen
  // quote errors.
  const rest = secrets.outOf({ ...detail, job: { ...job, payload: null, result: null, meta: {}, log } });
  const words = { ...rest, job: { ...rest.job, meta: secrets.outOfData(meta) as Job["meta"] } };
  if (!visitor.can.payloads) return { ...words, hidden: true };

  const cut: ("payload" | "result")[] = [];
  const fit = (name: "payload" | "result", value: unknown): unknown => {
    const shown = secrets.outOfData(value);
    const text = JSON.stringify(shown) ?? "null";
    if (text.length <= largestShown) return shown;
    cut.push(name);
    return `${text.slice(0, largestShown)}… (cut: ${text.length} characters in all; see \`stint jobs show ${job.id}\`)`;
  };
  const shown = { ...words.job, payload: fit("payload", payload), result: fit("result", result) };
  return { ...words, job: shown, ...(cut.length === 0 ? {} : { cut }) };
}

/**
 * The search looks at errors as they are stored. Whether it finds something tells what is hidden there, letter by letter, so it is
 * for those who may see payloads.
 *
 * @throws {Problem} The visitor may not.
 */
export function requireSearchable(filter: JobFilter, visitor: Visitor, redactor: Redactor): void {
  if (filter.error === undefined || !redactor.hides || visitor.can.payloads) return;
  throw new Problem(403, "NOT_ALLOWED", "Errors hold what is redacted here, so you may not search in them.", {
    hint: "Search by kind, queue or state, or ask for the right to see payloads.",
  });
}

/** A page of jobs. `get` is asked for what the rows leave out, where that is needed to know what to hide. */
export async function showPage(page: JobPage, redactor: Redactor, get: GetJob): Promise<JobPage> {
  return { ...page, jobs: await showRows(page.jobs, redactor, get) };
}

export async function showPreview(
  preview: OperationPreview,
  redactor: Redactor,
  get: GetJob,
): Promise<OperationPreview> {
  return { ...preview, sample: await showRows(preview.sample, redactor, get) };
}

type GetJob = (id: string) => Promise<Job | undefined>;

/** Payloads may be large, and a page has many. */
const atOnce = 4;

async function showRows(rows: readonly JobRow[], redactor: Redactor, get: GetJob): Promise<JobRow[]> {
  if (!redactor.hides) return [...rows];
  const shown: JobRow[] = [];
  for (let from = 0; from < rows.length; from += atOnce) {
    const some = rows.slice(from, from + atOnce);
    shown.push(...(await Promise.all(some.map(async (row) => await showRow(row, redactor, get)))));
  }
  return shown;
}

async function showRow(row: JobRow, redactor: Redactor, get: GetJob): Promise<JobRow> {
  const secrets = new Secrets();
  if (redactor.hidesData) {
    const job = await get(row.id);
    // Pruned since: nobody knows any more what was to be hidden.
    if (job === undefined) return { ...row, key: null, tenant: null, tags: [], reason: null, error: null };
    redact(job, redactor, secrets);
  }
  const error =
    row.error === null ? null : redactError({ ...row.error, class: row.error.name }, redactor, secrets);
  return secrets.outOf({
    ...row,
    error: error === null ? null : { name: error.class, message: error.message },
  });
}

/** What the paths name is replaced, and all that was hidden so is known. */
function redact(job: Job, redactor: Redactor, secrets = new Secrets()) {
  return {
    secrets,
    payload: redactor.value("payload", job.payload, secrets),
    result: redactor.value("result", job.result, secrets),
    meta: redactor.value("meta", job.meta, secrets),
    log: job.log.map((attempt) =>
      attempt.error === undefined
        ? attempt
        : { ...attempt, error: redactError(attempt.error, redactor, secrets) },
    ),
  };
}

function redactError<T extends { class: string; message: string }>(
  error: T,
  redactor: Redactor,
  secrets: Secrets,
): T {
  return redactor.value("error", error, secrets) as T;
}
