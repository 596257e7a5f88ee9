import type { JobRow } from "../inspect/types.ts";
import { age, attemptsText, stateText } from "./job-text.ts";
import type { Column } from "./table.ts";

/** Jobs as lists show them. */
export const jobRowColumns: readonly Column<JobRow>[] = [
  { title: "ID", cell: (job) => job.id },
  { title: "KIND", cell: (job) => job.kind },
  { title: "QUEUE", cell: (job) => job.queue, most: 32 },
  { title: "STATE", cell: (job) => stateText(job.state) },
  { title: "ATTEMPTS", cell: attemptsText, align: "right" },
  { title: "ENQUEUED", cell: (job) => age(job.createdAt) },
  { title: "KEY", cell: (job) => job.key ?? "", most: 32 },
  { title: "TENANT", cell: (job) => job.tenant ?? "", most: 32 },
  { title: "DETAIL", cell: rowDetail, most: 100 },
];

/** What one would ask next about a job in this state. */
export function rowDetail(job: JobRow): string {
  switch (job.state) {
    case "scheduled":
      return `due ${age(job.runAt)}`;
    case "retrying":
      return [`due ${age(job.runAt)}`, errorOf(job)].filter((part) => part !== "").join("; ");
    case "running":
      return `on ${job.worker ?? "?"}, began ${age(job.claimedAt)}`;
    case "parked":
      return [job.parkReason ?? "", job.reason ?? ""].filter((part) => part !== "").join("; ");
    case "dead":
    case "cancelled":
      return whyOf(job);
    case "ready":
    case "succeeded":
      return "";
    default:
      return job.state satisfies never;
  }
}

/** The reason, and the last error unless the reason repeats it. */
function whyOf(job: JobRow): string {
  const error = errorOf(job);
  if (job.reason === null || error === "") return job.reason ?? error;
  return job.reason.includes(error) ? job.reason : `${job.reason}; ${error}`;
}

function errorOf({ error }: JobRow): string {
  return error === null ? "" : `${error.name}: ${error.message}`;
}
