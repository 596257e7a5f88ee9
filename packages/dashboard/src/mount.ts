/** The path at which the dashboard is mounted, found from each request. */

export type Mount = {
  /** The path below the mount, with its leading slash; "" for the mount itself without one. */
  readonly inner: string;
  /** The path of the mount, without a slash at its end. Undefined: not known. */
  readonly base: string | undefined;
};

/** From the whole path. Frameworks that strip the mount's path themselves leave only what is below it. */
export function mountOf(path: string, basePath: string): Mount {
  if (basePath !== "") {
    const below = path === basePath || path.startsWith(`${basePath}/`);
    return { base: basePath, inner: below ? path.slice(basePath.length) : path };
  }
  // The paths of the API and of files show where the mount ends.
  const known = Math.max(path.lastIndexOf("/api/"), path.lastIndexOf("/assets/"));
  return known > 0
    ? { base: path.slice(0, known), inner: path.slice(known) }
    : { base: undefined, inner: path };
}

/** From the path as the framework left it, and as it came. */
export function mountFromStripped(path: string, original: string): Mount {
  if (original.endsWith(path)) return { base: original.slice(0, original.length - path.length), inner: path };
  // "/ops/jobs" is left as "/", which is not how it ends. Anything else was rewritten, and says nothing of the mount.
  return path === "/" ? { base: original, inner: "" } : { base: undefined, inner: path };
}

/**
 * For `<base href>`. Where the mount is not known, the way back to it is: as many steps up as the path has below it.
 * A path that ends with a slash is the mount itself, since no page of the dashboard does.
 */
export function baseHref({ base, inner }: Mount): string {
  if (base !== undefined) return `${base}/`;
  const depth = inner.endsWith("/") ? 0 : inner.split("/").length - 2;
  return depth <= 0 ? "./" : "../".repeat(depth);
}
