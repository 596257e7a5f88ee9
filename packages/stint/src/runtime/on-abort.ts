/** The callbacks of a signal, and the listener that calls them. */
type Callbacks = { readonly all: Set<() => void>; readonly listener: () => void };

const bySignal = new WeakMap<AbortSignal, Callbacks>();

/**
 * Calls `callback` when the signal aborts, unless the returned function has been called before.
 *
 * A signal gets one listener for all callbacks: Node warns of a leak at the eleventh listener, and one signal may end the waits for
 * hundreds of jobs. The listener is removed with the last callback, so that the signal can be collected.
 */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  const callbacks = bySignal.get(signal) ?? listen(signal);
  callbacks.all.add(callback);
  return () => {
    if (!callbacks.all.delete(callback) || callbacks.all.size > 0) return;
    signal.removeEventListener("abort", callbacks.listener);
    bySignal.delete(signal);
  };
}

function listen(signal: AbortSignal): Callbacks {
  const all = new Set<() => void>();
  const listener = (): void => {
    for (const callback of all) callback();
  };
  const callbacks = { all, listener };
  bySignal.set(signal, callbacks);
  signal.addEventListener("abort", listener, { once: true });
  return callbacks;
}
