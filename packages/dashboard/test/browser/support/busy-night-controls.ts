/** The busy night: pauses, limits, dependencies and admission. */
import type { Controls } from "stint/inspect";
import { fakeDependency } from "../../support/fake.ts";

const minute = 60_000;
const at = (ms: number): Date => new Date(Date.now() + ms);
const ada = { updatedAt: at(-90 * minute), updatedBy: "ada" };

const concurrency = { max: 30, min: 2, recoverMs: 10_000 };
const rate = { limit: 60, perMs: minute, burst: 10 };
const quota = { limit: 1_000_000, per: "day", zone: "UTC" } as const;

export const controls = (): Controls => ({
  pauses: [
    {
      scope: "dependency",
      name: "partner-api",
      until: at(25 * minute),
      reason: "the partner deploys",
      pausedBy: "ada",
      pausedAt: at(-12 * minute),
      parkedJobs: 0,
    },
  ],
  limits: [
    { name: "key:account", max: 2, declaredMax: 2, ...ada },
    { name: "kind:send-digest", max: 8, declaredMax: null, ...ada },
  ],
  dependencies: [
    {
      ...fakeDependency,
      name: "mail-relay",
      settings: { concurrency: { ...concurrency, max: 8 } },
      declared: { concurrency: { ...concurrency, max: 16 } },
      effectiveConcurrency: 8,
      running: 3,
      kinds: ["send-receipt", "send-digest"],
      ...ada,
    },
    {
      name: "openai",
      settings: { concurrency, rate, quota },
      declared: { concurrency, rate, quota },
      effectiveConcurrency: 15,
      tokens: 3,
      nextTokenAt: at(700),
      quotaLeft: 187_400,
      quotaResetsAt: at(5 * 60 * minute),
      slowUntil: at(42_000),
      isPaused: false,
      running: 15,
      waiting: 412,
      nextAt: at(42_000),
      kinds: ["explain-response", "embed-chapter", "rebuild-index", "close-day", "deliver-webhook"],
      ...ada,
    },
    {
      ...fakeDependency,
      name: "partner-api",
      settings: { rate: { ...rate, limit: 5, burst: 1 } },
      declared: { rate: { ...rate, limit: 5, burst: 1 } },
      effectiveConcurrency: null,
      tokens: 1,
      isPaused: true,
      waiting: 31,
      kinds: ["deliver-webhook"],
      ...ada,
    },
  ],
  keys: [
    {
      key: "key:account=school-12",
      max: 2,
      held: 2,
      waiting: 318,
      waitingSince: at(-4 * minute),
      holder: null,
    },
    { key: "key:account=school-7", max: 2, held: 1, waiting: 0, waitingSince: null, holder: null },
    {
      key: "order:close-day=school-12",
      max: 1,
      held: 1,
      waiting: 4,
      waitingSince: at(-31 * minute),
      holder: "019a8f3e-6d1c-7c3b-9b1e-2f6f6d1f0a12",
    },
  ],
  moreKeys: false,
  keysCapped: false,
  admission: [
    {
      queue: "notification",
      setFor: "notification",
      source: "live",
      depth: 187_304,
      ageMs: 22 * minute,
      behind: { dependency: "mail", delayMs: 5_400_000, maxDelayMs: 3_600_000 },
      full: true,
      policy: "defer",
      maxDepth: 150_000,
      maxAgeMs: 15 * minute,
    },
  ],
  settings: [],
  changes: [
    {
      at: at(-12 * minute),
      actor: "ada",
      action: "pause",
      reason: "the partner deploys",
      subject: "dependency:partner-api",
      change: { until: { from: null, to: at(25 * minute).toISOString() } },
    },
    {
      at: at(-90 * minute),
      actor: "ada",
      action: "set-dependency",
      reason: "the relay is slow tonight",
      subject: "dependency:mail-relay",
      change: { settings: { from: { concurrency: { max: 16 } }, to: { concurrency: { max: 8 } } } },
    },
  ],
});
