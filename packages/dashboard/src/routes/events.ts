import { respond } from "../respond.ts";
import { nothing } from "../input.ts";
import { Problem } from "../problem.ts";
import { route } from "../route.ts";

export const eventRoutes = [
  route({
    method: "GET",
    path: "events",
    right: "view",
    parse: nothing,
    run: async ({ events }, _, { actor }) => {
      const stream = events.open(actor);
      if (stream === undefined) {
        throw new Problem(429, "TOO_MANY_STREAMS", "Too many live update streams.", {
          hint: "Close some windows. This one polls until then.",
          headers: { "retry-after": "30" },
        });
      }
      return respond(stream, 200, {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-store, no-transform",
        // Otherwise nginx holds events back until its buffer is full.
        "x-accel-buffering": "no",
      });
    },
  }),
];
