import { setTimeout as sleep } from "node:timers/promises";
import { defineConfig, defineJob, handle } from "stint";
import { z } from "zod";

/** Make a thumbnail of an image. */
export const resize = defineJob("resize", { queue: "images", payload: z.object({ image: z.number() }) });

/** The worker that `stint autoscale` runs here, and a Deployment runs in a cluster. */
export default defineConfig({
  ...(process.env["STINT_SCHEMA"] === undefined ? {} : { schema: process.env["STINT_SCHEMA"] }),
  worker: {
    pools: { images: 2 },
    handlers: [handle(resize, async ({ signal }) => await sleep(1_000, undefined, { signal }))],
  },
});
