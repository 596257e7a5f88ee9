/** Import a peer from this folder's packages. An import from another folder would find another version, or none. */
export const load = (name) => import(name);
