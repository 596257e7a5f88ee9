import type { Run, RunOptions } from "../db/db.ts";
import { statement } from "../db/statement.ts";
import type { ClaimedJob } from "../model/job.ts";
import {
  claimText,
  claimValues,
  fromPools,
  pickReady,
  poolValues,
  toClaimed,
  type ClaimInput,
} from "./claim.ts";

/** The claim of plain jobs, but each take has the largest priority that it takes. */
const claimReserved = statement(
  "claim-urgent",
  claimText(
    fromPools(pickReady("take.queue", "take.take", "\n          and r.priority <= take.most_priority"), {
      values: ", (select $12::smallint[])",
      columns: ", most_priority",
    }),
  ),
  { asText: true },
);

/** Lease ready jobs into slots that are reserved for urgent ones. */
export async function claimUrgent(db: Run, input: ClaimInput, options?: RunOptions): Promise<ClaimedJob[]> {
  const { takes } = input;
  const values = [
    ...claimValues(input),
    takes.map(({ queue }) => queue),
    takes.map(({ limit }) => limit),
    ...poolValues(takes, true),
    takes.map(({ mostPriority = 32_767 }) => mostPriority),
  ];
  return toClaimed(await db.run(claimReserved, values, options), input);
}
