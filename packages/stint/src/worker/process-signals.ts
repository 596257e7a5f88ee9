/** A worker to stop on SIGTERM and SIGINT. The process has one listener for all its workers. */
type Stoppable = {
  /** Stop with time to drain. A second call cuts the drain short. */
  onSignal(signal: NodeJS.Signals): Promise<void>;
};

const signals = ["SIGTERM", "SIGINT"] as const;
const workers = new Set<Stoppable>();

export function stopOnSignals(worker: Stoppable): () => void {
  if (workers.size === 0) for (const signal of signals) process.on(signal, onSignal);
  workers.add(worker);
  return () => {
    workers.delete(worker);
    if (workers.size === 0) for (const signal of signals) process.off(signal, onSignal);
  };
}

function onSignal(signal: NodeJS.Signals): void {
  // Another listener decides when the process ends. Without one, this must end it.
  const alone = process.listenerCount(signal) === 1;
  void Promise.all([...workers].map((worker) => worker.onSignal(signal))).then(() => {
    if (alone) process.exit(0);
  });
}
