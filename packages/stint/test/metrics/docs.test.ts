import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { metrics } from "#stint/telemetry/registry.js";

test("the guide lists every metric as it is registered, and no other", () => {
  const guide = readFileSync(new URL("../../../../docs/guides/observability.md", import.meta.url), "utf8");
  const listed = guide.split("\n").filter((line) => line.startsWith("| `stint_"));
  const rows = metrics().map(({ name, type, labels, source, help }) => {
    const named = labels.map((label) => `\`${label}\``).join(", ");
    return `| \`${name}\` | ${type} | ${named} | ${source} | ${help} |`;
  });

  expect(listed).toEqual(rows);
});
