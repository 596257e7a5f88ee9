import { defineJob } from "stint";
import { z } from "zod";

export const importRows = defineJob("import-rows", {
  payload: z.object({ rows: z.number().int() }),
  result: z.object({ rows: z.number(), resumedAt: z.number() }),
  lease: "1s",
  stallAfter: "10s",
});
