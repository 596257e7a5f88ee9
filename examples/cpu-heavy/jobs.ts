/** The contract of the kinds. Both the worker and the file of the handler import it. */
import { defineJob, steps } from "stint";
import { z } from "zod";

export const countPrimes = defineJob("count-primes", {
  payload: z.object({ below: z.number(), hoard: z.boolean().default(false) }),
  result: z.object({ primes: z.number(), pid: z.number() }),
  timeout: "30s",
  maxCrashes: 2,
  backoff: steps("10ms"),
});
