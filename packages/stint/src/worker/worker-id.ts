import { randomBytes } from "node:crypto";
import { hostname } from "node:os";

/**
 * An id that no other worker has: replicas share their `name`, containers often their host name and process id. Rows, leases and
 * heartbeats of two workers with one id would be taken for those of one.
 */
export function newWorkerId(name: string | undefined): string {
  return `${name ?? `${hostname().slice(0, 60)}-${process.pid}`}-${randomBytes(3).toString("hex")}`;
}
