/** Written by scripts/embed.mjs into dist/worker/: the program of the lease thread, as CommonJS. */
export declare const code: string;
