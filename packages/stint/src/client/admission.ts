import type { Db } from "../db/db.ts";
import type { AdmissionState } from "../model/admission.ts";
import { checkName, checkText } from "../model/names.ts";
import { refuseUnknownKeys } from "../model/options.ts";
import { admission } from "../sql/admission.ts";
import { withRetry } from "./retry.ts";

export type { AdmissionState };

/** Whose enqueue it would be. */
export type AdmissionOptions = { tenant?: string };

/**
 * What an enqueue of one job to a queue would meet now.
 *
 * @throws {InvalidOptionError} This is not the name of a queue, or not a tenant.
 */
export async function readAdmission(
  db: Db,
  queue: string,
  options: AdmissionOptions,
): Promise<AdmissionState> {
  const name = checkName(queue, "admission(queue)");
  refuseUnknownKeys("admission", options, ["tenant"]);
  const { tenant } = options;
  const checked = tenant === undefined ? null : checkText(tenant, "admission.tenant");
  return await withRetry(db, async (each) => await admission(each, name, checked));
}
