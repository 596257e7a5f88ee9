/**
 * Reminders at each user's preferred hour: one schedule per user, in the user's time zone, outside the night.
 *
 *   npm run build && node --import jiti/register examples/reminders/main.ts
 *
 * Uses the Postgres of DATABASE_URL (schema stint_example only), or an embedded one if that is unset.
 */
import { createStint, defineJob, handle, silentLogger } from "stint";
import { migrate, startEmbedded } from "stint/dev";
import { z } from "zod";

type User = { id: string; hour: number; zone: string };

const remind = defineJob("remind", { payload: z.object({ userId: z.string() }) });

const server = process.env["DATABASE_URL"] ? undefined : await startEmbedded();
const database = server?.url ?? process.env["DATABASE_URL"] ?? "";
const schema = process.env["STINT_SCHEMA"] ?? "stint_example";
await migrate({ connection: database, schema });
const stint = createStint({ database, schema, jobs: [remind], logger: silentLogger });

/** Called when a user signs up or changes the preference. The rule is stored; a changed rule replaces the pending slot. */
async function prefer({ id, hour, zone }: User): Promise<void> {
  await stint.schedules.set(`reminder:${id}`, {
    cron: `0 ${hour} * * *`,
    zone,
    job: remind,
    payload: { userId: id },
    // A user who was offline for a week gets one reminder, not seven.
    catchUp: "last",
    // A worker that restarts at night must not send overdue reminders before morning.
    quietHours: { from: "22:00", to: "07:00", zone },
    // Spreads a thousand users with the same hour over five minutes.
    jitter: "5m",
  });
}

await prefer({ id: "ada", hour: 9, zone: "Europe/London" });
await prefer({ id: "lin", hour: 20, zone: "Australia/Lord_Howe" });
for (const { name, nextSlot, zone } of (await stint.schedules.list({ prefix: "reminder:" })).schedules)
  console.log(`${name}: ${nextSlot?.toLocaleString("en-GB", { timeZone: zone })} (${zone})`);

const worker = stint.worker({
  pools: { default: 5 },
  handlers: [handle(remind, ({ payload }) => console.log(`reminded ${payload.userId}`))],
});
await worker.start();

// Runs the job now, outside its slots, instead of waiting until nine. Quiet hours still apply.
await prefer({ id: "now", hour: 9, zone: "UTC" });
await stint.schedules.set("reminder:now", { cron: "* * * * * *", job: remind, payload: { userId: "now" } });
while (((await stint.schedules.get("reminder:now"))?.fired ?? 0) === 0)
  await new Promise((resolve) => setTimeout(resolve, 100));
const [slot] = await stint.schedules.slots("reminder:now");
if (slot?.jobId != null) await stint.waitFor(slot.jobId, { timeout: "10s" });
console.log(`fired ${slot?.slot.toISOString()}`);

for (const id of ["ada", "lin", "now"]) await stint.schedules.remove(`reminder:${id}`);
await worker.stop();
await stint.close();
await server?.stop();
