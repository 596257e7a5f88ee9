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
  // A framework leaves "/" of the mount "/ops/jobs" without a trailing slash. Any other difference is a rewrite, from which
  // the mount cannot be determined.
  return path === "/" ? { base: original, inner: "" } : { base: undefined, inner: path };
}

/**
 * For `<base href>`. If the mount is unknown, a relative path leads to it: one `../` per segment below the mount. A path
 * with a trailing slash is the mount itself, because no page of the dashboard ends with a slash.
 */
export function baseHref({ base, inner }: Mount): string {
  if (base !== undefined) return `${base}/`;
  const depth = inner.endsWith("/") ? 0 : inner.split("/").length - 2;
  return depth <= 0 ? "./" : "../".repeat(depth);
}
