/** SIGTERM and SIGINT, heard once for all workers of the process. */
type Stoppable = {
  /** Stop with time to drain. Called again, hurry. */
  onSignal(signal: NodeJS.Signals): Promise<void>;
};

const signals = ["SIGTERM", "SIGINT"] as const;
const workers = new Set<Stoppable>();

export function stopOnSignals(worker: Stoppable): () => void {
  if (workers.size === 0) for (const signal of signals) process.on(signal, hear);
  workers.add(worker);
  return () => {
    workers.delete(worker);
    if (workers.size === 0) for (const signal of signals) process.off(signal, hear);
  };
}

function hear(signal: NodeJS.Signals): void {
  // Somebody else listens too and will decide when the process ends; alone, that falls to us.
  const alone = process.listenerCount(signal) === 1;
  void Promise.all([...workers].map((worker) => worker.onSignal(signal))).then(() => {
    if (alone) process.exit(0);
  });
}
