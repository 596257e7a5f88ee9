/** Call back on SIGTERM and SIGINT, each time. Answers how to stop listening. */
export function onStopSignals(callback: (signal: NodeJS.Signals) => void): () => void {
  const signals = ["SIGTERM", "SIGINT"] as const;
  for (const signal of signals) process.on(signal, callback);
  return () => {
    for (const signal of signals) process.off(signal, callback);
  };
}
