import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { metrics } from "#stint/telemetry/registry.js";

const guide = fileURLToPath(new URL("../../../../docs/guides/observability.md", import.meta.url));
const rows = /(?:^\| `stint_.*\n)+/m;

// `npx vitest run packages/stint/test/metrics/docs.test.ts -u` writes the table.
test("the guide's table of metrics is the registry's", async () => {
  const table = metrics().map(({ name, type, labels, source, help }) => {
    const named = labels.map((label) => `\`${label}\``).join(", ");
    return `| \`${name}\` | ${type} | ${named} | ${source} | ${help} |\n`;
  });
  const text = readFileSync(guide, "utf8");

  expect(text).toMatch(rows);
  await expect(text.replace(rows, table.join(""))).toMatchFileSnapshot(guide);
});
