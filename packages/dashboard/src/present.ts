/** Jobs as sent to a visitor: redacted, without data the visitor may not see, and cut to a size that can be shown. */
import type { Job } from "stint";
import type {
  DeadGroup,
  DeadGroups,
  JobDetail,
  JobPage,
  JobRow,
  Operation,
  OperationPreview,
} from "stint/inspect";
import type { Visitor } from "./access.ts";
import { presentControls } from "./present-controls.ts";
import { fewAtATime } from "./few-at-a-time.ts";
import { knownFilter } from "./filters.ts";
import { preview } from "./preview.ts";
import type { Redactor } from "./redact.ts";
import type { Overview } from "./route.ts";
import { hiddenMark, Secrets } from "./secrets.ts";

/** Larger values slow down the browser more than they help the reader. */
export const largestShown = 256 * 1024;

export type PresentedDetail = JobDetail & {
  /** The visitor may not see payload and result; both are null. */
  readonly hidden?: true;
  /** The values that were too large. The job has a note in their place; `preview` has their start. */
  readonly cut?: readonly DataName[];
  readonly preview?: Readonly<Partial<Record<DataName, unknown>>>;
};

export type DataName = "payload" | "result";

export function presentDetail(detail: JobDetail, visitor: Visitor, redactor: Redactor): PresentedDetail {
  const { job } = detail;
  const { payload, result, meta, log, secrets } = redact(job, redactor);
  const remembered = redactSteps(detail, visitor, redactor, secrets);
  // A value hidden in one field must be hidden in every text: errors quote their input, and texts made for the screen quote
  // errors.
  const rest = secrets.outOf({
    ...detail,
    ...remembered.words,
    job: { ...job, payload: null, result: null, meta: {}, log },
  });
  const words = {
    ...rest,
    ...remembered.withData(rest),
    job: { ...rest.job, meta: secrets.outOfData(meta) as Job["meta"] },
  };
  if (!visitor.can.payloads) return { ...words, hidden: true };

  const cut: DataName[] = [];
  const previews: Partial<Record<DataName, unknown>> = {};
  const fit = (name: DataName, value: unknown): unknown => {
    const shown = secrets.outOfData(value);
    const { length } = JSON.stringify(shown) ?? "null";
    if (length <= largestShown) return shown;
    cut.push(name);
    previews[name] = preview(shown);
    return `(cut: ${length} characters in all; GET jobs/${job.id}?download=${name} has all of it)`;
  };
  const shown = { ...words.job, payload: fit("payload", payload), result: fit("result", result) };
  return { ...words, job: shown, ...(cut.length === 0 ? {} : { cut, preview: previews }) };
}

type Remembered = Pick<JobDetail, "steps" | "progress" | "signals">;

/**
 * Results of steps, checkpoints and payloads of signals are data like payloads: redacted by the same paths, and only for visitors who may see
 * payloads. `words` is the rest, without them; `withData` puts them back.
 */
function redactSteps(
  { steps, progress, signals }: Remembered,
  visitor: Visitor,
  redactor: Redactor,
  secrets: Secrets,
): { readonly words: Remembered; readonly withData: (words: Remembered) => Remembered } {
  const data = (root: string, values: readonly unknown[]): unknown[] =>
    values.map((value) => redactor.value(root, value, secrets));
  const results = data(
    "result",
    steps.map(({ result }) => result),
  );
  const payloads = data(
    "payload",
    signals.map(({ payload }) => payload),
  );
  const [checkpoint] = data("payload", [progress?.checkpoint ?? null]);
  const shown = (value: unknown): unknown => (visitor.can.payloads ? secrets.outOfData(value) : null);
  return {
    words: {
      steps: steps.map((step) => ({ ...step, result: null })),
      progress: progress === null ? null : { ...progress, checkpoint: null },
      signals: signals.map((signal) => ({ ...signal, payload: null })),
    },
    withData: (words) => ({
      steps: words.steps.map((step, index) => ({ ...step, result: shown(results[index]) ?? null })),
      progress: words.progress === null ? null : { ...words.progress, checkpoint: shown(checkpoint) ?? null },
      signals: words.signals.map((signal, index) => ({ ...signal, payload: shown(payloads[index]) ?? null })),
    }),
  };
}

/** A full payload or result as JSON text of any size. Redacted like on the screen. */
export function presentData(job: Job, name: DataName, redactor: Redactor): string {
  const { secrets, ...data } = redact(job, redactor);
  return JSON.stringify(secrets.outOfData(data[name]), null, 2) ?? "null";
}

/** Where overviews contain tenant names. */
const tenantLists: Partial<Record<Overview, string>> = { stats: "topTenants", tenants: "tenants" };

/**
 * An overview as JSON. Lists of jobs hide a tenant that repeats a redacted value of its job. A list of tenants covers too many jobs
 * for this check, so it needs the right to see payloads.
 */
export function presentOverview(name: Overview, json: string, visitor: Visitor, redactor: Redactor): string {
  if (name === "controls") return presentControls(json, visitor, redactor);
  const list = tenantLists[name];
  if (list === undefined || !redactor.hidesData || visitor.can.payloads) return json;
  return JSON.stringify({ ...(JSON.parse(json) as object), [list]: [], hidden: true });
}

/** A bulk operation, without what the visitor may not search by. */
export function presentOperation(operation: Operation, visitor: Visitor, redactor: Redactor): Operation {
  return { ...operation, filter: knownFilter(operation.filter, visitor, redactor) };
}

/** A page of jobs. `get` reads whole jobs if values that the rows leave out decide what to redact. */
export async function presentPage(page: JobPage, redactor: Redactor, get: GetJob): Promise<JobPage> {
  return { ...page, jobs: await presentRows(page.jobs, redactor, get) };
}

export async function presentPreview(
  preview: OperationPreview,
  redactor: Redactor,
  get: GetJob,
): Promise<OperationPreview> {
  return { ...preview, sample: await presentRows(preview.sample, redactor, get) };
}

export type PresentedGroups = Omit<DeadGroups, "groups"> & {
  /** Without a fingerprint: the visitor may not search by it. */
  readonly groups: readonly (Omit<DeadGroup, "fingerprint"> & { readonly fingerprint: string | null })[];
};

/** Groups of dead jobs. Redaction needs a job's values, so each group shows the error text of its newest job. */
export async function presentGroups(
  found: DeadGroups,
  visitor: Visitor,
  redactor: Redactor,
  get: GetJob,
): Promise<PresentedGroups> {
  if (!redactor.hides) return found;
  const groups = await fewAtATime(found.groups, async (group) => ({
    ...group,
    error: errorOf(await get(group.example), redactor),
    fingerprint: visitor.can.payloads ? group.fingerprint : null,
  }));
  return { ...found, groups: visitor.can.payloads ? groups : sameAgain(groups) };
}

type PresentedGroup = PresentedGroups["groups"][number];

/** Groups that differ only by what is redacted become one: otherwise the list counts the jobs of each redacted value. */
function sameAgain(groups: readonly PresentedGroup[]): PresentedGroup[] {
  const merged = new Map<string, PresentedGroup>();
  for (const group of groups) {
    const name = JSON.stringify([group.kind, group.error]);
    const other = merged.get(name);
    merged.set(name, other === undefined ? group : together(other, group));
  }
  return [...merged.values()].sort((a, b) => b.count - a.count);
}

function together(a: PresentedGroup, b: PresentedGroup): PresentedGroup {
  const [newer, older] = a.newest >= b.newest ? [a, b] : [b, a];
  return {
    ...newer,
    count: a.count + b.count,
    oldest: newer.oldest <= older.oldest ? newer.oldest : older.oldest,
  };
}

function errorOf(job: Job | undefined, redactor: Redactor): string {
  if (job === undefined) return hiddenMark;
  const { secrets, log } = redact(job, redactor);
  const error = log.findLast((attempt) => attempt.error !== undefined)?.error;
  const text =
    job.reason ?? (error === undefined ? "no reason was kept" : `${error.class}: ${error.message}`);
  return secrets.outOf({ text }).text;
}

type GetJob = (id: string) => Promise<Job | undefined>;

async function presentRows(rows: readonly JobRow[], redactor: Redactor, get: GetJob): Promise<JobRow[]> {
  if (!redactor.hides) return [...rows];
  return await fewAtATime(rows, async (row) => await presentRow(row, redactor, get));
}

async function presentRow(row: JobRow, redactor: Redactor, get: GetJob): Promise<JobRow> {
  const secrets = new Secrets();
  if (redactor.hidesData) {
    const job = await get(row.id);
    // Pruned since: the values to redact are unknown, so all texts are hidden.
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

/** Replaces the values at the paths, and returns the replaced values. */
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
