import { createDashboard, serveDashboard, type DashboardOptions } from "#dashboard/index.js";
import { onTestFinished } from "vitest";

/** Serve a dashboard on a free port until the test ends. The answer is its address, with a slash at the end. */
export async function serve(options: DashboardOptions): Promise<string> {
  const dashboard = createDashboard(options);
  const served = await serveDashboard(dashboard, { port: 0 });
  onTestFinished(async () => {
    await served.close();
    await dashboard.close();
  });
  return served.url;
}
