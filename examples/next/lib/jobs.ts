import { defineJob } from "stint";
import { z } from "zod";

/** The contract. Importing it pulls no handler into the web application. */
export const sendReceipt = defineJob("send-receipt", { payload: z.object({ paymentId: z.string() }) });
