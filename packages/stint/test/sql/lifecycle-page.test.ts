import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { parkReasons, parkRules, type ParkRule } from "#stint/model/park-reasons.js";
import { transitions } from "#stint/model/state.js";

test("docs/lifecycle.md shows the table of transitions", async () => {
  const page = await readFile(new URL("../../../../docs/lifecycle.md", import.meta.url), "utf8");
  const shown = page.split("\n").filter((line) => /`sql\/[a-z-]+\.ts` \|$/.test(line));

  expect(shown).toEqual(transitions.map(toRow));
});

function toRow({ from, to, when, by, move, park }: (typeof transitions)[number]): string {
  const sources = from.map((state) => (state === "absent" ? "–" : `\`${state}\``)).join(", ");
  const reasons =
    park === undefined ? "–" : park.length > 3 ? "any" : park.map((one) => `\`${one}\``).join(", ");
  return `| ${sources} | \`${to}\` | ${when} | ${by} | ${reasons} | \`sql/${fileOf(move)}\` |`;
}

/** A move is the statement of the file with its name, but for those that share one. */
function fileOf(move: string): string {
  const shared: Record<string, string> = {
    cancel: "operate.ts",
    "run-now": "operate.ts",
    replay: "operate.ts",
    "claim-quarantined": "claim.ts",
    deliver: "signals.ts",
    "hold-paused": "pauses.ts",
    "lift-paused": "pauses.ts",
    "follow-ups": "transitions.ts",
    "tend-limits": "limits.ts",
    "tend-dependencies": "dependencies.ts",
  };
  return shared[move] ?? `${move}.ts`;
}

test("docs/lifecycle.md shows the rules of every park reason", async () => {
  const page = await readFile(new URL("../../../../docs/lifecycle.md", import.meta.url), "utf8");
  const yes = (is: boolean): string => (is ? "yes" : "no");
  const rows = parkReasons.flatMap((reason) => {
    const { by, runNow: lifts, until }: ParkRule = parkRules[reason];
    if (by === "reserved") return [];
    return [
      `| \`${reason}\` | ${by === "stint" ? "Stint" : "its handler"} | ${yes(lifts)} | ${yes(until)} |`,
    ];
  });
  const reserved = parkReasons.filter((reason) => parkRules[reason].by === "reserved");

  for (const row of rows) expect(page).toContain(row);
  for (const reason of reserved) expect(page).toContain(`\`${reason}\``);
});
