import type { Row } from "../jobs/columns.tsx";

/** Dead jobs of one page that died alike. */
export type Group = {
  readonly id: string;
  readonly kind: string;
  /** The name of the last error, or the reason where there was none. */
  readonly error: string;
  readonly jobs: readonly Row[];
};

/** Alike: the same kind and the same name of the last error. Largest first. */
export function groupsOf(jobs: readonly Row[]): Group[] {
  const groups = new Map<string, Group & { jobs: Row[] }>();
  for (const job of jobs) {
    const error = job.error?.name ?? job.reason ?? "no error";
    const id = JSON.stringify([job.kind, error]);
    const group = groups.get(id) ?? { id, kind: job.kind, error, jobs: [] };
    group.jobs.push(job);
    groups.set(id, group);
  }
  return [...groups.values()].sort((one, other) => other.jobs.length - one.jobs.length);
}
