import type { Db } from "../db/db.ts";
import type { AdmissionState } from "../model/admission.ts";
import { checkName } from "../model/names.ts";
import { admission } from "../sql/admission.ts";
import { withRetry } from "./retry.ts";

export type { AdmissionState };

/**
 * Whether a queue would admit a job now.
 *
 * @throws {InvalidOptionError} This is not the name of a queue.
 */
export async function readAdmission(db: Db, queue: string): Promise<AdmissionState> {
  const name = checkName(queue, "admission(queue)");
  return await withRetry(db, async (each) => await admission(each, name));
}
