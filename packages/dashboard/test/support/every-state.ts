/** A real installation with one job in each of five states. */
import { defineJob, handle, typed } from "stint";
import { gate } from "../../../stint/test/support/gate.ts";
import { until } from "../../../stint/test/support/until.ts";
import { onTestFinished } from "vitest";
import { installation, type Installation } from "./installation.ts";

export const hostileText = `<img src=x onerror=alert(1)>\u202E"'</script><script>alert(2)</script>`;

export type EveryState = Omit<Installation, "serve"> & {
  readonly ids: { succeeded: string; dead: string; scheduled: string; running: string; retrying: string };
};

const work = defineJob("work", { payload: typed<{ card?: { number: string }; text?: string }>() });
const fail = defineJob("fail", { payload: typed<{ card: { number: string } }>(), attempts: 1 });
const again = defineJob("again", { payload: typed<object>(), attempts: 5, backoff: () => "1h" });
const hold = defineJob("hold", { payload: typed<object>() });

export async function everyState(): Promise<EveryState> {
  const { fresh, stint } = await installation({ jobs: [work, fail, again, hold] });
  const held = gate();
  const worker = stint.worker({
    pools: { default: 4 },
    handlers: [
      handle(work, async ({ payload }) => ({ said: payload.text ?? "" })),
      handle(fail, async ({ payload }) => {
        throw new Error(`${hostileText} card ${payload.card.number} was refused`, {
          cause: new Error("declined"),
        });
      }),
      handle(again, async () => {
        throw new Error("not yet");
      }),
      handle(hold, async () => await held.opened),
    ],
  });
  await worker.start();
  onTestFinished(async () => {
    held.open();
    await worker.stop();
  });
  const card = { number: "4111111111111111" };
  const named = { key: "order:1", tenant: "acme", tags: [hostileText, "b"], meta: { source: "test" } };
  const ids = {
    succeeded: (await stint.enqueue(work, { text: hostileText, card }, named)).id,
    dead: (await stint.enqueue(fail, { card }, { tenant: "acme" })).id,
    retrying: (await stint.enqueue(again, {})).id,
    running: (await stint.enqueue(hold, {})).id,
    scheduled: (await stint.enqueue(work, {}, { delay: "1h" })).id,
  };
  for (const [state, id] of Object.entries(ids))
    await until(async () => (await stint.get(id))?.state === state, { message: `the job is ${state}` });
  return { fresh, stint, ids };
}
