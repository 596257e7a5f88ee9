/** The dashboard's API as the browser sees it. Every call to the server goes through this file. */
import type { FlowView, Slot } from "stint";
import type {
  BulkAction,
  Capacity,
  Controls,
  Count,
  DeadGroup,
  DeadGroups,
  FlowRows,
  Health,
  JobDetail,
  JobFilter,
  JobPage,
  KindView,
  LocalSlots,
  Operation,
  OperationPreview,
  PreviewedSet,
  QueueTenants,
  ScheduleCounts,
  ScheduleRows,
  ScheduleView,
  Series,
  SeriesRange,
  SlowJob,
  Stats,
  WaitingTenants,
  WorkerStop,
  WorkerView,
} from "stint/inspect";

/** A value after JSON transport: a Date becomes a string. */
export type Wire<T> = T extends Date
  ? string
  : T extends readonly (infer Item)[]
    ? readonly Wire<Item>[]
    : T extends object
      ? { [Key in keyof T]: Wire<T[Key]> }
      : T;

export type Rights = {
  readonly view: boolean;
  readonly operate: boolean;
  readonly admin: boolean;
  readonly payloads: boolean;
};

export type Me = {
  readonly user: string | null;
  readonly can: Rights;
  /** Filters that this role may use. */
  readonly filters?: readonly string[];
  readonly environment: { readonly name: string; readonly production: boolean } | null;
  /** The schema of the installation. Servers of an older version do not send it. */
  readonly schema?: string;
  readonly version: string;
  /** The URL of a trace, with the placeholder {traceId}. */
  readonly traceUrl?: string | null;
};

/** `hidden`: the role may not see payloads, so payload and result are null. Servers of an older version do not number attempts. */
export type JobResponse = Omit<Wire<JobDetail>, "attemptOfEpoch" | Remembered> &
  Partial<Pick<JobDetail, "attemptOfEpoch"> & Pick<Wire<JobDetail>, Remembered>> & {
    readonly hidden?: boolean;
  };
/** Servers of an older version do not send these. */
type Remembered = "steps" | "progress" | "signals" | "stalledMs" | "flow";
export type JobsFilter = Wire<JobFilter>;

/** `hidden`: the role may not see the payload, so it is null. `cut`: it is too large, and this is its beginning. */
export type ScheduleResponse = Wire<ScheduleView> & { readonly hidden?: boolean; readonly cut?: boolean };
export type SchedulesFilter = Readonly<
  Partial<Record<"search" | "state" | "owner" | "kind" | "after", string | undefined>>
>;
export type FlowsFilter = Readonly<Partial<Record<"search" | "live" | "after", string | undefined>>>;
/** A schedule by its name, or a rule that is not stored; `in`: the zone whose local times are shown. */
export type SlotsQuestion = Readonly<
  Partial<Record<"name" | "cron" | "every" | "zone" | "in", string | undefined>>
>;
export type NewSchedule = Readonly<Record<string, unknown>> & { readonly name: string };

/** Without a fingerprint: values are redacted, and the role may not search by filters that could reveal them. */
export type GroupsResponse = Omit<Wire<DeadGroups>, "groups"> & {
  readonly groups: readonly (Omit<Wire<DeadGroup>, "fingerprint"> & {
    readonly fingerprint: string | null;
  })[];
};

/** `hidden`: a tenant's name may repeat a redacted value, so this role gets none. */
export type StatsResponse = Wire<Stats> & { readonly hidden?: boolean };
export type TenantsResponse = WaitingTenants & { readonly hidden?: boolean };
/** `exact`: the tenants of a fair queue with the depth of each. Servers of an older version do not send it. */
export type QueueTenantsResponse = TenantsResponse & { readonly exact?: QueueTenants["tenants"] | null };

/** `hidden`: this role gets no tenants and keys. Servers of an older version send no dependencies and no moreKeys. */
export type ControlsResponse = Omit<Wire<Controls>, "dependencies" | "moreKeys" | "keysCapped"> &
  Partial<Pick<Wire<Controls>, "dependencies" | "moreKeys" | "keysCapped">> & { readonly hidden?: boolean };
/** `hidden`: the values of keys are left out of what limits a pool. */
export type CapacityResponse = Wire<Capacity> & { readonly hidden?: boolean };
/** The reason of a change of controls and, in production, the name of the environment. */
export type Confirmed = { readonly reason: string; readonly confirm: string };

/** A failed request. `status` is 0 if no response arrived. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;
  readonly code: string;
  readonly hint: string | null;

  constructor(status: number, code: string, message: string, hint: string | null = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.hint = hint;
  }
}

/** Where the dashboard is mounted, with a slash at the end. The server writes it into `<base href>`. */
export const base = new URL(".", document.baseURI);

type Query = Readonly<Record<string, string | number | readonly string[] | undefined>>;

/** A URL of the API. Empty values are left out; lists are joined by commas. */
export function address(path: string, query: Query = {}): string {
  const url = new URL(`api/${path}`, base);
  for (const [name, value] of Object.entries(query)) {
    const text = Array.isArray(value) ? value.join(",") : String(value ?? "");
    if (text !== "") url.searchParams.set(name, text);
  }
  return url.href;
}

/** No request takes this long on a healthy server: searches stop at their own time budget. */
const usualTimeoutMs = 30_000;

async function request<Body>(url: string, init: RequestInit, timeoutMs = usualTimeoutMs): Promise<Body> {
  const timeout = AbortSignal.timeout(timeoutMs);
  const signal = init.signal instanceof AbortSignal ? AbortSignal.any([init.signal, timeout]) : timeout;
  let response: Response;
  let body: unknown;
  try {
    response = await fetch(url, { credentials: "same-origin", cache: "no-store", ...init, signal });
    body = await response.json().catch((error: unknown) => {
      if (signal.aborted) throw error;
      return null;
    });
  } catch (error) {
    // React Query distinguishes its own aborts from failures by this error.
    if (init.signal?.aborted === true) throw error;
    throw new ApiError(0, "unreachable", "The dashboard's server does not respond.", "Is it still running?");
  }
  if (response.ok) return body as Body;
  throw toError(response.status, body);
}

function toError(status: number, body: unknown): ApiError {
  const error = (body as { error?: { code?: unknown; message?: unknown; hint?: unknown } } | null)?.error;
  return new ApiError(
    status,
    typeof error?.code === "string" ? error.code : "unknown",
    typeof error?.message === "string" ? error.message : `The server responded with status ${status}.`,
    typeof error?.hint === "string" ? error.hint : null,
  );
}

function get<Body>(path: string, query?: Query, signal?: AbortSignal, timeoutMs?: number): Promise<Body> {
  const init = { headers: { accept: "application/json" }, signal: signal ?? null };
  return request(address(path, query), init, timeoutMs);
}

function post<Body>(path: string, body: object): Promise<Body> {
  return request(address(path), {
    method: "POST",
    headers: { accept: "application/json", "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

const part = encodeURIComponent;

function filterQuery(filter: JobsFilter): Query {
  const { state, ...rest } = filter;
  return { state: typeof state === "string" ? [state] : state, ...rest };
}

export const api = {
  me: (signal?: AbortSignal) => get<Me>("me", {}, signal),
  health: (signal?: AbortSignal, timeoutMs?: number) => get<Wire<Health>>("health", {}, signal, timeoutMs),
  kinds: (signal?: AbortSignal) => get<readonly Wire<KindView>[]>("kinds", {}, signal),
  workers: (signal?: AbortSignal) => get<readonly Wire<WorkerView>[]>("workers", {}, signal),
  stops: (signal?: AbortSignal) => get<readonly Wire<WorkerStop>[]>("stops", {}, signal),
  capacity: (signal?: AbortSignal) => get<CapacityResponse>("capacity", {}, signal),
  stats: (signal?: AbortSignal) => get<StatsResponse>("stats", {}, signal),
  tenants: (signal?: AbortSignal) => get<TenantsResponse>("tenants", {}, signal),
  queueTenants: (queue: string, signal?: AbortSignal) =>
    get<QueueTenantsResponse>("queues/tenants", { queue }, signal),
  deadGroups: (of: { kind?: string | undefined; queue?: string | undefined }, signal?: AbortSignal) =>
    get<GroupsResponse>("dead/groups", of, signal),
  slow: (signal?: AbortSignal) => get<readonly Wire<SlowJob>[]>("slow", {}, signal),
  series: (of: { queue?: string; kind?: string; range: SeriesRange }, signal?: AbortSignal) =>
    get<Wire<Series>>("series", of, signal),

  jobs: (
    filter: JobsFilter & { after?: string | undefined; limit?: number | undefined },
    signal?: AbortSignal,
  ) => {
    const { after, limit, ...rest } = filter;
    return get<Wire<JobPage>>("jobs", { ...filterQuery(rest), after, limit }, signal);
  },
  count: ({ after, ...filter }: JobsFilter & { after?: string | undefined }, signal?: AbortSignal) =>
    get<Count>("jobs/count", { ...filterQuery(filter), after }, signal),
  job: (id: string, signal?: AbortSignal) => get<JobResponse>(`jobs/${part(id)}`, {}, signal),
  cancel: (id: string, reason?: string) =>
    post<{ was: "cancelled" | "asked" }>(`jobs/${part(id)}/cancel`, { reason }),
  runNow: (id: string, reason?: string) => post<object>(`jobs/${part(id)}/run-now`, { reason }),
  changeJob: (id: string, change: { delay?: string; priority?: number; reason: string }) =>
    post<object>(`jobs/${part(id)}/change`, change),
  replay: (id: string, reason: string) => post<object>(`jobs/${part(id)}/replay`, { reason }),

  schedules: (filter: SchedulesFilter, signal?: AbortSignal) =>
    get<Wire<ScheduleRows>>("schedules", filter, signal),
  scheduleCounts: (signal?: AbortSignal) => get<ScheduleCounts>("schedules/counts", {}, signal),
  schedule: (name: string, signal?: AbortSignal) => get<ScheduleResponse>("schedules/show", { name }, signal),
  scheduleSlots: (name: string, before: string, signal?: AbortSignal) =>
    get<{ readonly slots: readonly Wire<Slot>[] }>("schedules/slots", { name, before }, signal),
  nextSlots: (of: SlotsQuestion, signal?: AbortSignal) => get<Wire<LocalSlots>>("schedules/next", of, signal),
  pauseSchedule: (name: string, reason: string) => post<object>("schedules/pause", { name, reason }),
  resumeSchedule: (name: string, reason?: string) => post<object>("schedules/resume", { name, reason }),
  runSchedule: (name: string, reason?: string) => post<{ id: string }>("schedules/run", { name, reason }),
  removeSchedule: (name: string, reason: string) => post<object>("schedules/remove", { name, reason }),
  addSchedule: (schedule: NewSchedule) => post<{ name: string }>("schedules/add", schedule),

  flows: (filter: FlowsFilter, signal?: AbortSignal) => get<Wire<FlowRows>>("flows", filter, signal),
  flow: (id: string, signal?: AbortSignal) => get<Wire<FlowView>>(`flows/${part(id)}`, {}, signal),
  cancelFlow: (id: string, reason: string, confirm: string) =>
    post<{ cancelled: number }>(`flows/${part(id)}/cancel`, { reason, confirm }),

  controls: (signal?: AbortSignal) => get<ControlsResponse>("controls", {}, signal),
  pause: (pause: { scope: string; name: string; for: string } & Confirmed) =>
    post<object>("pauses/pause", pause),
  resume: (pause: { scope: string; name: string } & Confirmed) =>
    post<{ resumed: boolean }>("pauses/resume", pause),
  setLimit: (limit: { name: string; max: number | null } & Confirmed) => post<object>("limits/set", limit),
  limitKeys: (search: string, signal?: AbortSignal) =>
    get<Pick<ControlsResponse, "keys" | "moreKeys">>("limits/keys", { search }, signal),
  passOrder: (order: { key: string } & Confirmed) => post<{ job: string | null }>("limits/pass", order),
  setDependency: (dependency: { name: string; change: object | null } & Confirmed) =>
    post<object>("dependencies/set", dependency),
  setQueue: (setting: { queue: string; admission: object | null } & Confirmed) =>
    post<object>("queues/set", setting),

  operations: (signal?: AbortSignal) => get<readonly Wire<Operation>[]>("operations", {}, signal),
  operation: (id: string, signal?: AbortSignal) => get<Wire<Operation>>(`operations/${part(id)}`, {}, signal),
  preview: (action: BulkAction, filter: JobsFilter) =>
    post<Wire<OperationPreview>>("operations/preview", { action, filter }),
  begin: (
    action: BulkAction,
    filter: JobsFilter,
    by: { reason: string; confirm?: string | undefined; preview: PreviewedSet },
  ) => post<Wire<Operation>>("operations", { action, filter, ...by }),
  abort: (id: string) => post<Wire<Operation>>(`operations/${part(id)}/abort`, {}),
};
