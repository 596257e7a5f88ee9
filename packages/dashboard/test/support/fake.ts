/** A fake installation, for states that are hard to produce in a real one: certain failures, slow or hostile data. */
import type { DependencyStatus, FlowSummary, Job, QueueSetting, Schedule } from "stint";
import type { Health, Inspector, JobDetail, ScheduleView } from "stint/inspect";
import type { DashboardClient } from "#dashboard/index.js";
import { aJob } from "../../../stint/test/support/a-job.ts";

export const jobId = "019a8f00-0000-7000-8000-000000000001";

const depth = { scheduled: 0, ready: 0, running: 0, retrying: 0, parked: 0, dead: 0 };

export const emptyHealth: Health = {
  at: new Date("2026-01-01T00:00:00Z"),
  queues: [],
  total: depth,
  workers: 0,
  slow: 0,
  unserved: [],
};

/** A dead job with a payload that not every role may see. */
export function fakeJob(job: Partial<Job> = {}): Job {
  return {
    ...aJob(new Date(0)),
    id: jobId,
    kind: "work",
    queue: "default",
    state: "dead",
    finishedAt: new Date(0),
    attempts: 1,
    maxAttempts: 1,
    epoch: 1,
    payload: { secret: "of the payload" },
    ...job,
  };
}

export function fakeDetail(job: Partial<Job> = {}, detail: Partial<JobDetail> = {}): JobDetail {
  return {
    job: fakeJob(job),
    leaseId: null,
    attemptOfEpoch: {},
    timeline: [],
    audit: [],
    why: { summary: "It is dead.", findings: [] },
    run: { p50: null, p95: null, p99: null },
    traceId: null,
    steps: [],
    progress: null,
    signals: [],
    stalledMs: null,
    flow: null,
    ...detail,
  };
}

export const fakeFlow: FlowSummary = {
  id: jobId,
  name: "checkout",
  state: "stuck",
  createdAt: new Date(0),
  endedAt: null,
  reason: null,
  parts: 2,
  live: 1,
  blocked: 1,
  succeeded: 0,
  dead: 1,
  cancelled: 0,
};

export const fakeSchedule: Schedule = {
  name: "nightly",
  owner: "billing",
  state: "active",
  cron: "30 2 * * *",
  everyMs: null,
  zone: "Europe/Berlin",
  startAt: null,
  endAt: null,
  jitterMs: 0,
  catchUp: "last",
  overlap: "allow",
  quietHours: null,
  kind: "work",
  queue: "default",
  tenant: null,
  nextSlot: new Date("2026-01-02T01:30:00Z"),
  lastSlot: null,
  lastJobId: null,
  fired: 0,
  missed: 0,
  skipped: 0,
  error: null,
  pausedAt: null,
  createdAt: new Date(0),
  updatedAt: new Date(0),
  updatedBy: "ada",
};

export function fakeScheduleView(schedule: Partial<Schedule> = {}): ScheduleView {
  return {
    schedule: { ...fakeSchedule, ...schedule, payload: { secret: "of the payload" } },
    slots: [],
    coming: [],
    audit: [],
  };
}

const fakeSetting: QueueSetting = {
  queue: "emails",
  targetAgeMs: 60_000,
  declaredTargetAgeMs: null,
  admission: null,
  declaredAdmission: null,
  fair: null,
  declaredFair: null,
  agingMs: null,
  declaredAgingMs: null,
  updatedAt: new Date(0),
  updatedBy: "ada",
};

export const fakeDependency: DependencyStatus = {
  name: "openai",
  settings: { concurrency: { max: 30, min: 1, recoverMs: 10_000 } },
  declared: null,
  effectiveConcurrency: 30,
  tokens: null,
  nextTokenAt: null,
  quotaLeft: null,
  quotaResetsAt: null,
  slowUntil: null,
  isPaused: false,
  running: 0,
  waiting: 0,
  nextAt: null,
  kinds: ["summarize"],
  updatedAt: new Date(0),
  updatedBy: "ada",
};

export type Fake = DashboardClient & {
  /** The calls of the inspector and of the client, in order. */
  readonly calls: { readonly name: string; readonly args: readonly unknown[] }[];
};

/** The methods of `client.schedules`, `client.flows` and the controls, under names of their own. */
type ScheduleChange = `${"create" | "pause" | "resume" | "run" | "remove"}Schedule` | "cancelFlow";
type ControlChange = "pause" | "resume" | "setLimit" | "passOrder" | "setDependency" | "setQueue";

/** Returns a harmless value from every method that a test does not override. */
export function fakeStint(
  responses: Partial<
    Record<keyof Inspector | keyof DashboardClient | ScheduleChange | ControlChange, unknown>
  > = {},
): Fake {
  const calls: { name: string; args: readonly unknown[] }[] = [];
  const matched = { count: 0, capped: false };
  const usual: Record<string, unknown> = {
    health: emptyHealth,
    stats: {},
    capacity: {
      at: new Date(0),
      workers: 0,
      recommended: 1,
      pools: [],
      database: { connections: 1, maxConnections: 97, lockWaits: 0 },
    },
    stops: [],
    series: {},
    kinds: [],
    jobs: { jobs: [], next: null, partial: false },
    count: matched,
    job: fakeDetail(),
    deadGroups: { groups: [], others: 0, of: matched },
    waitingTenants: { tenants: [], of: matched, fair: false },
    workers: [],
    slow: [],
    preview: { matched, sample: [], asOf: "2026-01-01T00:00:00.000000Z" },
    begin: { id: jobId },
    operations: [],
    operation: { id: jobId, filter: {} },
    abort: { id: jobId, filter: {} },
    close: undefined,
    get: fakeJob(),
    cancel: "cancelled",
    runNow: undefined,
    replay: undefined,
    change: undefined,
    tenants: { queue: "default", fair: true, tenants: [] },
    limitKeys: { keys: [], moreKeys: false, keysCapped: false },
    schedules: { schedules: [], next: null },
    scheduleCounts: { active: 0, paused: 0, ended: 0, broken: 0 },
    schedule: (name: string) => (name === fakeSchedule.name ? fakeScheduleView() : undefined),
    scheduleSlots: [],
    nextSlots: { zone: "UTC", slots: [] },
    flows: { flows: [], next: null },
    flow: { ...fakeFlow, jobs: [] },
    cancelFlow: 2,
    controls: {
      pauses: [],
      limits: [],
      dependencies: [],
      keys: [],
      moreKeys: false,
      keysCapped: false,
      admission: [],
      settings: [],
      changes: [],
    },
    pause: undefined,
    resume: true,
    setLimit: undefined,
    passOrder: jobId,
    setDependency: fakeDependency,
    setQueue: fakeSetting,
    createSchedule: fakeSchedule,
    pauseSchedule: undefined,
    resumeSchedule: undefined,
    runSchedule: jobId,
    removeSchedule: true,
  };
  const method =
    (name: string) =>
    async (...args: readonly unknown[]): Promise<unknown> => {
      calls.push({ name, args });
      const response = name in responses ? responses[name as keyof typeof responses] : usual[name];
      if (response instanceof Error) throw response;
      return typeof response === "function"
        ? await (response as (...given: unknown[]) => unknown)(...args)
        : response;
    };
  const inspector = Object.fromEntries(Object.keys(usual).map((name) => [name, method(name)]));
  return {
    calls,
    inspector: () => ({ ...inspector, schema: responses.schema ?? "stint" }) as unknown as Inspector,
    get: method("get") as DashboardClient["get"],
    cancel: method("cancel") as DashboardClient["cancel"],
    runNow: method("runNow") as DashboardClient["runNow"],
    replay: method("replay") as DashboardClient["replay"],
    change: method("change") as DashboardClient["change"],
    flows: { cancel: method("cancelFlow") } as DashboardClient["flows"],
    pauses: { pause: method("pause"), resume: method("resume") } as DashboardClient["pauses"],
    limits: { set: method("setLimit"), pass: method("passOrder") } as DashboardClient["limits"],
    dependencies: { set: method("setDependency") } as DashboardClient["dependencies"],
    queueSettings: { set: method("setQueue") } as DashboardClient["queueSettings"],
    schedules: {
      create: method("createSchedule"),
      pause: method("pauseSchedule"),
      resume: method("resumeSchedule"),
      runNow: method("runSchedule"),
      remove: method("removeSchedule"),
    } as DashboardClient["schedules"],
  };
}
