import { hostname } from "node:os";
import { InvalidOptionError } from "../errors.ts";
import type { ClaimInput } from "../sql/claim.ts";
import { scheduleRow } from "../client/define-schedule.ts";
import { requireDefinition } from "../client/kinds.ts";
import { asConflict } from "../client/schedules.ts";
import { refuseUnknownDelays } from "../model/admission.ts";
import { declaredDependencies, refuseUnknownUses } from "../model/dependencies.ts";
import { declareDependencies } from "../sql/dependencies.ts";
import { declareLimits } from "../sql/limits.ts";
import { registerKinds, type KindInfo } from "../sql/kinds.ts";
import { declareQueues } from "../sql/queue-settings.ts";
import { declareSchedules } from "../sql/schedules.ts";
import { registerWorker, type Registered, type WorkerInfo } from "../sql/workers.ts";
import type { WorkerDeps } from "./deps.ts";
import type { DeclaredSchedules, ResolvedWorkerOptions } from "./options.ts";

/** Register the declared limits, dependencies and queue settings, the kinds that a worker serves, the declared schedules, then the worker itself. */
export async function register(
  deps: Pick<WorkerDeps, "db" | "queues" | "dependencies" | "maxResultBytes" | "notify">,
  worker: WorkerInfo,
  options: ResolvedWorkerOptions,
): Promise<Registered> {
  const { db, queues } = deps;
  const limits = limitsOf(options);
  const actor = `code:${worker.id}`;
  if (limits.size > 0) await declareLimits(db, limits, worker.kinds, actor);
  const isUsed = [...options.handlers.values()].some(({ definition }) => definition.uses.length > 0);
  const declares = isUsed || deps.dependencies.size > 0;
  if (declares) await declareUses(deps, options, actor);
  if (queues.size > 0) await declareSettings(deps, actor);
  const { used, limited } = await registerKinds(db, kindsOf(options));
  // Earlier code of these kinds used dependencies, or may have declared limits: their jobs wait no longer.
  if (used && !declares) await declareUses(deps, options, actor);
  if (limited && limits.size === 0) await declareLimits(db, limits, worker.kinds, actor);
  if (options.schedules !== undefined) await reconcile(deps, options.schedules, actor);
  return await registerWorker(db, worker);
}

/** Declare the settings of queues. Their `maxDelay` may name any dependency that this code or other code has declared. */
async function declareSettings(
  { db, queues }: Pick<WorkerDeps, "db" | "queues">,
  actor: string,
): Promise<void> {
  const follow = [...queues].filter(([, { admission }]) => admission?.maxDelay !== undefined);
  if (follow.length > 0) {
    const known = await declareDependencies(db, new Map(), new Map(), actor);
    for (const [queue, { admission }] of follow)
      refuseUnknownDelays(`queues["${queue}"].admission`, admission ?? {}, known);
  }
  await declareQueues(db, queues, actor);
}

/** Declare the dependencies of this code, and which of its kinds use them. */
async function declareUses(
  { db, dependencies }: Pick<WorkerDeps, "db" | "dependencies">,
  { handlers }: Pick<ResolvedWorkerOptions, "handlers">,
  actor: string,
): Promise<void> {
  const kinds = [...handlers.values()].map(({ definition }) => definition);
  const uses = new Map(kinds.map(({ kind, uses: of }) => [kind, of]));
  const listed = [...dependencies].map(([dependency, settings]) => ({ dependency, settings }));
  const used = kinds.flatMap((kind) => kind.uses.flatMap(({ definition }) => definition ?? []));
  const declared = declaredDependencies("worker.handlers", [...listed, ...used]);
  const names = new Map(kinds.map((kind) => [kind.kind, kind.uses.map(({ name }) => name)]));
  refuseUnknownUses(uses, await declareDependencies(db, declared, names, actor));
}

/** Make the schedules of this owner those of this code. */
async function reconcile(
  { db, maxResultBytes, notify }: Pick<WorkerDeps, "db" | "maxResultBytes" | "notify">,
  { owner, definitions }: DeclaredSchedules,
  actor: string,
): Promise<void> {
  const prepare = {
    maxPayloadBytes: maxResultBytes,
    find: (job: unknown) => requireDefinition(job, "defineSchedule.job"),
  };
  const rows = await Promise.all(
    definitions.map(
      async (definition) =>
        await scheduleRow(`schedule "${definition.name}"`, definition, db.clock.nowMs(), prepare),
    ),
  );
  const changed = await declareSchedules(db, owner, rows, actor).catch((error: unknown) => {
    throw asConflict(error);
  });
  if (changed > 0) notify(["schedule"]);
}

/** The settings of the kinds that a worker serves, as the database keeps them. */
function kindsOf({
  handlers,
  maxCrashes,
  leaseMs,
  timeoutMs,
  stallAfterMs,
}: ResolvedWorkerOptions): KindInfo[] {
  return [...handlers.values()].map(({ definition: { kind, queue, priority, signals }, policy }) => ({
    name: kind,
    queue,
    priority: priority ?? null,
    maxCrashes: policy.maxCrashes ?? maxCrashes,
    leaseMs: policy.leaseMs ?? leaseMs,
    timeoutMs: policy.timeoutMs ?? timeoutMs,
    stallAfterMs: policy.stallAfterMs ?? stallAfterMs,
    signals,
  }));
}

/** The limits that the kinds of a worker declare, by the name of the rule. */
export function limitsOf({ handlers }: Pick<ResolvedWorkerOptions, "handlers">): Map<string, number> {
  const declared = new Map<string, { max: number; kind: string }>();
  for (const { definition } of handlers.values()) {
    const { kind, limits } = definition;
    for (const { rule, max } of limits) {
      const other = declared.get(rule);
      if (other !== undefined && other.max !== max)
        throw new InvalidOptionError(
          `defineJob("${kind}").limits`,
          `declares ${rule} with max ${max}, but ${other.kind} declares it with max ${other.max}`,
        );
      declared.set(rule, { max, kind });
    }
  }
  return new Map([...declared].map(([rule, { max }]) => [rule, max]));
}

/** The worker itself, as the database keeps it. */
export function infoOf(id: string, version: string, { pools, handlers }: ResolvedWorkerOptions): WorkerInfo {
  return {
    id,
    host: hostname(),
    pid: process.pid,
    version,
    pools: Object.fromEntries(pools.flatMap((pool) => pool.queues.map((queue) => [queue, pool.slots]))),
    kinds: [...handlers.keys()],
  };
}

/** The worker's lease, and that of each kind that has its own. */
export function leasesOf({
  handlers,
  leaseMs,
}: Pick<ResolvedWorkerOptions, "handlers" | "leaseMs">): Pick<ClaimInput, "kindLeaseMs" | "leaseMs"> {
  // Without a prototype: a kind may have the name of any property of Object.prototype.
  const kindLeaseMs = Object.create(null) as Record<string, number>;
  for (const [kind, { policy }] of handlers)
    if (policy.leaseMs !== undefined) kindLeaseMs[kind] = policy.leaseMs;
  return { kindLeaseMs, leaseMs };
}
