import { randomBytes } from "node:crypto";
import { hostname } from "node:os";

/**
 * A unique id. Replicas share their `name`, containers often their host name and process id; two workers with one id would share
 * rows, leases and heartbeats.
 */
export function newWorkerId(name: string | undefined): string {
  return `${name ?? `${hostname().slice(0, 60)}-${process.pid}`}-${randomBytes(3).toString("hex")}`;
}
