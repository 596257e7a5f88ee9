import { version } from "stint";
import { nothing } from "../input.ts";
import { route } from "../route.ts";

export const meRoutes = [
  route({
    method: "GET",
    path: "me",
    right: "view",
    parse: nothing,
    run: async ({ environment, traceUrl }, _, { user, can }) => ({
      user,
      can,
      environment,
      version,
      traceUrl,
    }),
  }),
];
