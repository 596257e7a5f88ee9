/** One hook per API call. `everyMs`: how often it is refreshed while on the screen. */
import { keepPreviousData, QueryClient, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { BulkAction, PreviewedSet, SeriesRange } from "stint/inspect";
import {
  api,
  ApiError,
  type FlowsFilter,
  type JobsFilter,
  type SchedulesFilter,
  type SlotsQuestion,
} from "./api.ts";
import { isRecent, searchJobs, type JobsQuestion, type SearchedPage } from "./screens/jobs/search-jobs.ts";

export function createQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 1_000,
        // live.ts decides when to refetch, also for a focused or reconnected page.
        refetchOnWindowFocus: false,
        refetchOnReconnect: false,
        networkMode: "always",
        // Keeps the rows of the last filter until the next ones have loaded, so that the layout does not shift.
        placeholderData: keepPreviousData,
        retry: (failures, error) => failures < 2 && isPassing(error),
        retryDelay: (failures) => 500 * 2 ** failures,
      },
      mutations: { networkMode: "always", retry: false },
    },
  });
}

/** No response, or the database is unavailable: retried. Refusals are not. */
function isPassing(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 0 || error.status === 503);
}

const every = (everyMs: number) => ({ everyMs });
const nothing = () => undefined;

export const useMe = () =>
  useQuery({ queryKey: ["me"], queryFn: ({ signal }) => api.me(signal), staleTime: Infinity });

/** Fetched once at the start, then updated by the server's events. */
export const useHealth = () =>
  useQuery({ queryKey: ["health"], queryFn: ({ signal }) => api.health(signal) });

export const useKinds = () =>
  useQuery({ queryKey: ["kinds"], queryFn: ({ signal }) => api.kinds(signal), meta: every(10_000) });

export const useWorkers = () =>
  useQuery({ queryKey: ["workers"], queryFn: ({ signal }) => api.workers(signal), meta: every(4_000) });

export const useStops = () =>
  useQuery({ queryKey: ["stops"], queryFn: ({ signal }) => api.stops(signal), meta: every(10_000) });

export const useCapacity = () =>
  useQuery({ queryKey: ["capacity"], queryFn: ({ signal }) => api.capacity(signal), meta: every(4_000) });

export const useStats = () =>
  useQuery({ queryKey: ["stats"], queryFn: ({ signal }) => api.stats(signal), meta: every(15_000) });

export const useTenants = () =>
  useQuery({ queryKey: ["tenants"], queryFn: ({ signal }) => api.tenants(signal), meta: every(15_000) });

export const useQueueTenants = (queue: string) =>
  useQuery({
    queryKey: ["tenants", queue],
    queryFn: ({ signal }) => api.queueTenants(queue, signal),
    meta: every(15_000),
    placeholderData: nothing,
  });

export const useDeadGroups = (of: { kind?: string | undefined; queue?: string | undefined }) =>
  useQuery({
    queryKey: ["dead-groups", of],
    queryFn: ({ signal }) => api.deadGroups(of, signal),
    meta: every(10_000),
  });

export const useSlow = () =>
  useQuery({ queryKey: ["slow"], queryFn: ({ signal }) => api.slow(signal), meta: every(4_000) });

export const useSeries = (of: { queue?: string; kind?: string; range: SeriesRange }) =>
  useQuery({
    queryKey: ["series", of],
    queryFn: ({ signal }) => api.series(of, signal),
    meta: every(15_000),
    // Data of another range of the same queue may be shown while loading; data of another queue may not.
    placeholderData: (before) => (before?.queue === (of.queue ?? null) ? before : undefined),
  });

/** The search reports what it found so far; `isStopped` ends it early. */
export function useJobs(question: JobsQuestion, isStopped: () => boolean) {
  const client = useQueryClient();
  const queryKey = ["jobs", question];
  return useQuery({
    queryKey,
    queryFn: async ({ signal }) => {
      const known = client.getQueryData<SearchedPage>(queryKey);
      if (known !== undefined && (isRecent(known) || isStopped())) return known;
      const report = (soFar: SearchedPage) => {
        // A completely searched page stays visible until the next search is complete.
        if (known === undefined) client.setQueryData(queryKey, soFar);
      };
      return await searchJobs(question, { signal, isStopped, report });
    },
    meta: every(4_000),
  });
}

export const useJobCount = (filter: JobsFilter) =>
  useQuery({
    queryKey: ["count", filter],
    queryFn: ({ signal }) => api.count(filter, signal),
    meta: every(10_000),
  });

export const useJob = (id: string) =>
  useQuery({
    queryKey: ["job", id],
    queryFn: ({ signal }) => api.job(id, signal),
    meta: every(2_000),
    // Data of the previous job must not be shown for another job.
    placeholderData: nothing,
  });

export const useSchedules = (filter: SchedulesFilter) =>
  useQuery({
    queryKey: ["schedules", filter],
    queryFn: ({ signal }) => api.schedules(filter, signal),
    meta: every(4_000),
  });

export const useScheduleCounts = () =>
  useQuery({
    queryKey: ["schedule-counts"],
    queryFn: ({ signal }) => api.scheduleCounts(signal),
    meta: every(10_000),
  });

export const useSchedule = (name: string) =>
  useQuery({
    queryKey: ["schedule", name],
    queryFn: ({ signal }) => api.schedule(name, signal),
    meta: every(3_000),
    placeholderData: nothing,
  });

/** Slots older than those that the schedule itself brings. */
export const useOlderSlots = (name: string, before: string | null) =>
  useQuery({
    queryKey: ["schedule-slots", name, before],
    queryFn: ({ signal }) => api.scheduleSlots(name, before ?? "", signal),
    enabled: before !== null,
    placeholderData: nothing,
  });

/** Null asks for nothing: the rule is not complete yet. */
export const useNextSlots = (of: SlotsQuestion | null) =>
  useQuery({
    queryKey: ["next-slots", of],
    queryFn: ({ signal }) => api.nextSlots(of ?? {}, signal),
    enabled: of !== null,
    meta: every(10_000),
  });

export const useFlows = (filter: FlowsFilter) =>
  useQuery({
    queryKey: ["flows", filter],
    queryFn: ({ signal }) => api.flows(filter, signal),
    meta: every(4_000),
  });

export const useFlow = (id: string) =>
  useQuery({
    queryKey: ["flow", id],
    queryFn: ({ signal }) => api.flow(id, signal),
    meta: every(2_000),
    placeholderData: nothing,
  });

export const useControls = () =>
  useQuery({ queryKey: ["controls"], queryFn: ({ signal }) => api.controls(signal), meta: every(3_000) });

/** Keys of limits that contain this text. */
export const useLimitKeys = (search: string) =>
  useQuery({
    queryKey: ["limit-keys", search],
    queryFn: ({ signal }) => api.limitKeys(search, signal),
    enabled: search !== "",
    meta: every(5_000),
  });

export const useOperations = () =>
  useQuery({
    queryKey: ["operations"],
    queryFn: ({ signal }) => api.operations(signal),
    meta: every(2_000),
  });

export const useOperation = (id: string | null) =>
  useQuery({
    queryKey: ["operation", id],
    queryFn: ({ signal }) => api.operation(id ?? "", signal),
    enabled: id !== null,
    meta: every(1_000),
    placeholderData: nothing,
  });

/** After an action, everything on the screen is refetched. */
function useAct<Input, Body>(act: (input: Input) => Promise<Body>) {
  const client = useQueryClient();
  return useMutation<Body, Error, Input>({
    mutationFn: act,
    onSettled: () => client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== "me" }),
  });
}

export const useCancel = () =>
  useAct(({ id, reason }: { id: string; reason?: string }) => api.cancel(id, reason));
export const useRunNow = () =>
  useAct(({ id, reason }: { id: string; reason?: string }) => api.runNow(id, reason));
export const useReplay = () =>
  useAct(({ id, reason }: { id: string; reason: string }) => api.replay(id, reason));

export const useChange = (act: (reason: string) => Promise<unknown>) => useAct(act);

type Bulk = { action: BulkAction; filter: JobsFilter };
export const usePreview = () =>
  useMutation({ mutationFn: ({ action, filter }: Bulk) => api.preview(action, filter) });
export const useBegin = () =>
  useAct(({ action, filter, ...by }: Bulk & { reason: string; confirm?: string; preview: PreviewedSet }) =>
    api.begin(action, filter, by),
  );
export const useAbort = () => useAct((id: string) => api.abort(id));

/** A readable message of any thrown value. */
export function explain(error: unknown): { message: string; hint: string | null } {
  if (error instanceof ApiError) return { message: error.message, hint: error.hint };
  return { message: error instanceof Error ? error.message : String(error), hint: null };
}

/** The rights of the viewer; none until they are known. */
export function useRights() {
  const { data } = useMe();
  return data?.can ?? { view: false, operate: false, admin: false, payloads: false };
}
