/** A promise and the way to resolve it, for results that a callback delivers. Node 20 has no Promise.withResolvers. */
export type Deferred<T = void> = { readonly promise: Promise<T>; resolve(value: T): void };

export function deferred<T = void>(): Deferred<T> {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
