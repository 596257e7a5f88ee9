/** Where `peers/` is. Actors are told, because they run from the compiled files. */
export const peersVariable = "BENCH_PEERS";

/** Import a package of `peers/`. What is used of it is typed by the adapter, because types need no install that way. */
export async function loadPeer<Module>(name: string): Promise<Module> {
  const { load } = (await import(new URL("load.js", process.env[peersVariable]).href)) as {
    load: (name: string) => Promise<Module>;
  };
  return await load(name);
}
