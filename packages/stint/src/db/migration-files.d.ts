/** Written by scripts/embed.mjs into dist/db/: the text of every file of migrations/, by its name. */
export declare const files: Readonly<Record<string, string>>;
