import { expect, test } from "vitest";
import { defineJob, typed, UnknownOutcomeError, type Stint } from "#stint/index.js";
import { startCutProxy } from "../support/cut-proxy.ts";
import { freshSchema } from "../support/fresh.ts";

const work = defineJob("work", { payload: typed<object>() });
const reason = "test";

type Action = {
  /** Before the call. */
  prepare?: (direct: Stint, id: string) => Promise<unknown>;
  act: (stint: Stint, id: string) => Promise<unknown>;
  /** Between the call and its late arrival. */
  meanwhile: (direct: Stint, id: string) => Promise<unknown>;
  state: string;
};

const actions: Record<string, Action> = {
  cancel: {
    act: (stint, id) => stint.cancel(id),
    meanwhile: async (direct, id) => {
      await direct.cancel(id);
      await direct.replay(id, { reason });
    },
    state: "ready",
  },
  replay: {
    prepare: (direct, id) => direct.cancel(id),
    act: (stint, id) => stint.replay(id, { reason }),
    meanwhile: async (direct, id) => {
      await direct.replay(id, { reason });
      await direct.cancel(id);
    },
    state: "cancelled",
  },
  "run-now": {
    act: (stint, id) => stint.runNow(id),
    meanwhile: () => Promise.resolve(),
    state: "scheduled",
  },
};

async function arrivesLate(name: string, action: Action): Promise<[string, string | undefined]> {
  const { prepare, act, meanwhile } = action;
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const direct = fresh.client();
  const { id } = await direct.enqueue(work, {}, { delay: "1h" });
  await prepare?.(direct, id);
  const held = proxy.holdAt(`/* stint:${name} */`);
  const acted = act(fresh.client({ database: proxy.url }), id).catch((error: unknown) => error);
  const late = await held;
  late.resetClient();

  expect(await acted).toBeInstanceOf(UnknownOutcomeError);
  await meanwhile(direct, id);
  await late.release();
  return [name, (await direct.get(id))?.state];
}

test("a cancel, replay or runNow that arrives after its deadline changes nothing", async () => {
  const all = Object.entries(actions);

  expect(await Promise.all(all.map(([name, action]) => arrivesLate(name, action)))).toEqual(
    all.map(([name, { state }]) => [name, state]),
  );
});
