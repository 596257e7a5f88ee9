/**
 * Many events, few jobs: debounce, throttle and latest-wins, and what each enqueue reports.
 *
 *   npm run build && node --import jiti/register examples/shaping/main.ts
 *
 * Uses the Postgres of DATABASE_URL (schema stint_example only), or an embedded one if that is unset.
 */
import { createStint, defineJob, handle, silentLogger, typed, type EnqueueOptions } from "stint";
import { migrate, startEmbedded } from "stint/dev";

const syncUser = defineJob("sync-user", { payload: typed<{ user: string; version: number }>() });

const server = process.env["DATABASE_URL"] ? undefined : await startEmbedded();
const database = server?.url ?? process.env["DATABASE_URL"] ?? "";
const schema = "stint_example";
await migrate({ connection: database, schema });
const stint = createStint({ database, schema, logger: silentLogger });

let started = (): void => undefined;
let finish = (): void => undefined;
const worker = stint.worker({
  pools: { default: 5 },
  handlers: [
    handle(syncUser, async ({ payload: { user, version } }) => {
      console.log(`  ${user}: version ${version} runs`);
      if (user !== "carol" || version > 1) return;
      const finished = new Promise<void>((resolve) => (finish = resolve));
      started();
      await finished;
    }),
  ],
});
await worker.start();

/** Enqueue versions of a user one after the other. Returns the id of the last job. */
async function change(user: string, versions: readonly number[], options: EnqueueOptions): Promise<string> {
  let last = "";
  for (const version of versions) {
    const { id, status } = await stint.enqueue(syncUser, { user, version }, options);
    console.log(`  ${user}: version ${version} is ${status}`);
    last = id;
  }
  return last;
}

console.log("debounce: only version 3 runs");
await stint.waitFor(await change("alice", [1, 2, 3], { debounce: { key: "alice", wait: "500ms" } }));

console.log("throttle: only version 1 runs");
await stint.waitFor(await change("bob", [1, 2, 3], { throttle: { key: "bob", every: "1m" } }));

console.log("latest wins: version 1 runs, then version 4");
const isRunning = new Promise<void>((resolve) => (started = resolve));
const latest = { dedupe: { key: "carol", replace: true } };
await change("carol", [1], latest);
await isRunning;
const last = await change("carol", [2, 3, 4], latest);
finish();
await stint.waitFor(last);

await stint.close();
await server?.stop();
