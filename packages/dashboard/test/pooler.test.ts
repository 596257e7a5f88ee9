import { expect, onTestFinished, test } from "vitest";
import { createStint, defineJob, silentLogger, typed } from "stint";
import { freshSchema } from "../../stint/test/support/fresh.ts";
import { hasPgBouncer, pgBouncer } from "../../stint/test/support/pgbouncer.ts";
import { request, open } from "./support/request.ts";

const work = defineJob("work", { payload: typed<object>() });

test.skipIf(!hasPgBouncer)("the dashboard's API works through PgBouncer in transaction mode", async () => {
  const fresh = await freshSchema();
  const stint = createStint({
    database: await pgBouncer({ poolSize: 2 }),
    schema: fresh.schema,
    logger: silentLogger,
  });
  onTestFinished(async () => await stint.close());
  const { id } = await stint.enqueue(work, {});
  const dashboard = open({ role: "admin", user: "ada" }, { stint });

  for (const path of [
    "/api/health",
    "/api/jobs",
    `/api/jobs/${id}`,
    "/api/workers",
    "/api/kinds",
    "/api/series",
  ]) {
    const { status, text } = await request(dashboard, path);
    expect({ path, status, text }).toMatchObject({ path, status: 200 });
  }
});
