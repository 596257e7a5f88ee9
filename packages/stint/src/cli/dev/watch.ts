import { watch, type FSWatcher } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join, relative } from "node:path";

const quietMs = 100;

/** Extensions of code files. Data files are left out: a handler that writes one would restart its worker endlessly. */
const code = /\.[cm]?[jt]sx?$/;

const ignored = new Set(["node_modules", "dist", "build", "coverage"]);

/** Hidden folders contain caches and the embedded database. */
function isIgnored(name: string): boolean {
  return name.startsWith(".") || ignored.has(name);
}

/**
 * Reports changed code below the folder, once per burst of changes, with the first changed file.
 *
 * Node's recursive watch cannot exclude folders, and would need a watch for every file in node_modules.
 */
export async function watchCode(root: string, onChange: (file: string) => void): Promise<() => void> {
  const watchers = new Map<string, FSWatcher>();
  let first: string | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  function changed(path: string): void {
    first ??= relative(root, path);
    clearTimeout(timer);
    timer = setTimeout(() => {
      const file = first ?? "";
      first = undefined;
      onChange(file);
    }, quietMs);
  }

  async function onFileEvent(folder: string, name: string): Promise<void> {
    if (isIgnored(name)) return;
    const path = join(folder, name);
    if (code.test(name)) changed(path);
    else if ((await stat(path).catch(() => undefined))?.isDirectory() === true) await add(path, true);
  }

  async function add(folder: string, isNew: boolean): Promise<void> {
    if (watchers.has(folder) || closed) return;
    const watcher = watch(folder);
    watchers.set(folder, watcher);
    watcher.on("change", (_type, name) => void onFileEvent(folder, String(name)));
    // The folder was removed. The watcher of its parent reports if it returns.
    watcher.on("error", () => drop(folder));
    const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
    for (const entry of entries) {
      if (isIgnored(entry.name)) continue;
      if (entry.isDirectory()) await add(join(folder, entry.name), isNew);
      // Files may have been added to a new folder before its watcher started.
      else if (isNew && code.test(entry.name)) changed(join(folder, entry.name));
    }
  }

  function drop(folder: string): void {
    watchers.get(folder)?.close();
    watchers.delete(folder);
  }

  await add(root, false);
  return () => {
    closed = true;
    clearTimeout(timer);
    for (const folder of watchers.keys()) drop(folder);
  };
}
