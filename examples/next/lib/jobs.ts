import { defineJob } from "stint";
import { z } from "zod";

/** The contract. Importing it adds no handler code to the web application. */
export const sendReceipt = defineJob("send-receipt", { payload: z.object({ paymentId: z.string() }) });
