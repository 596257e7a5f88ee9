/** Written by scripts/build-ui.mjs into dist/ui.js. */
export const files: Readonly<Record<string, { readonly type: string; readonly brotli: string }>>;
export const index: { readonly html: string };
