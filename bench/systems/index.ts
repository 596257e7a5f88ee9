import type { Config, OpenClient } from "../core/types.ts";

export const systemNames = [
  "stint",
  "ceiling",
  "graphile-worker",
  "pg-boss",
  "bullmq-redis",
  "bullmq-postgres",
  "dbos",
] as const;
export type SystemName = (typeof systemNames)[number];

export type SystemInfo = {
  readonly name: SystemName;
  /** Stint, the ceiling, a peer on Postgres or a peer on another store. Decides the ratio in which the system counts. */
  readonly role: "stint" | "ceiling" | "postgres" | "redis";
  readonly configs: readonly Config[];
};

export const systems: readonly SystemInfo[] = [
  { name: "stint", role: "stint", configs: ["default", "fast"] },
  { name: "ceiling", role: "ceiling", configs: ["default", "fast"] },
  { name: "graphile-worker", role: "postgres", configs: ["default", "fast"] },
  { name: "pg-boss", role: "postgres", configs: ["default", "fast"] },
  { name: "bullmq-redis", role: "redis", configs: ["default", "fast"] },
  { name: "bullmq-postgres", role: "postgres", configs: ["default", "fast"] },
  { name: "dbos", role: "postgres", configs: ["default", "fast"] },
];

/** The database of a system. */
export function databaseOf(system: SystemName): string {
  return `bench_${system.replaceAll("-", "_")}`;
}

/** Whether a system is a package of `peers/`, which runs on Node 24. */
export function isPeer(system: SystemName): boolean {
  return system !== "stint" && system !== "ceiling";
}

const imports: Record<SystemName, () => Promise<{ open: OpenClient }>> = {
  stint: async () => await import("./stint.ts"),
  ceiling: async () => await import("./ceiling.ts"),
  "graphile-worker": async () => await import("./graphile-worker.ts"),
  "pg-boss": async () => await import("./pg-boss.ts"),
  "bullmq-redis": async () => await import("./bullmq-redis.ts"),
  "bullmq-postgres": async () => await import("./bullmq-postgres.ts"),
  dbos: async () => await import("./dbos.ts"),
};

/** Import one system only, so that the others do not count in the actor's memory. */
export async function importSystem(name: SystemName): Promise<{ open: OpenClient }> {
  return await imports[name]();
}
