/** The path of `peers/`. Actors receive it, because they run the compiled files in another folder. */
export const peersVariable = "BENCH_PEERS";

/** Import a package of `peers/`. Each adapter declares the types it uses, so that type checks need no installed peers. */
export async function loadPeer<Module>(name: string): Promise<Module> {
  const { load } = (await import(new URL("load.js", process.env[peersVariable]).href)) as {
    load: (name: string) => Promise<Module>;
  };
  return await load(name);
}
