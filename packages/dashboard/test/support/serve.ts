import { createDashboard, serveDashboard, type DashboardOptions } from "#dashboard/index.js";
import { onTestFinished } from "vitest";

/** Live figures at once, for tests that wait for them. */
export const quick = { limits: { refreshMs: 100 } };

/** Serve a dashboard on a free port until the test ends. Returns its address, which ends with a slash. */
export async function serve(options: DashboardOptions): Promise<string> {
  const dashboard = createDashboard(options);
  const served = await serveDashboard(dashboard, { port: 0 });
  onTestFinished(async () => {
    await served.close();
    await dashboard.close();
  });
  return served.url;
}
