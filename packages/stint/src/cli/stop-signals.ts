/** Call back on each SIGTERM and SIGINT. Returns a function that stops listening. */
export function onStopSignals(callback: (signal: NodeJS.Signals) => void): () => void {
  const signals = ["SIGTERM", "SIGINT"] as const;
  for (const signal of signals) process.on(signal, callback);
  return () => {
    for (const signal of signals) process.off(signal, callback);
  };
}
