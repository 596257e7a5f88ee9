/** The Okabe-Ito palette, which is safe for colour-blind readers. Every bar also has a label. */
const bySystem: Readonly<Record<string, string>> = {
  stint: "#0072b2",
  ceiling: "#8a8f98",
  "graphile-worker": "#e69f00",
  "pg-boss": "#009e73",
  "bullmq-redis": "#d55e00",
  "bullmq-postgres": "#cc79a7",
  dbos: "#56b4e9",
};

export function colourOf(system: string): string {
  return bySystem[system] ?? "#8a8f98";
}
