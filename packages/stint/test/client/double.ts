import { defineJob, handle, PermanentError, typed, type Stint, type Worker } from "#stint/index.js";

/** Returns twice its payload; a negative one is dead at once. */
export const double = defineJob("double", {
  payload: typed<number>(),
  result: typed<number>(),
  attempts: 1,
});

export async function startWorker(stint: Stint, slots = 20): Promise<Worker> {
  const worker = stint.worker({
    pools: { default: slots },
    signals: false,
    handlers: [
      handle(double, ({ payload }) => {
        if (payload < 0) throw new PermanentError("negative");
        return payload * 2;
      }),
    ],
  });
  await worker.start();
  return worker;
}
