/** Import a peer from this folder's own packages: files elsewhere would find other versions of them, or none. */
export const load = (name) => import(name);
