/** Written by scripts/embed.mjs into dist/worker/isolation/: the program of an isolated handler, as CommonJS. */
export declare const code: string;
