import { command } from "../../model/command.ts";
import { formatCount, formatMs, plural } from "../../model/figures.ts";
import {
  controlFacts,
  type ControlFacts,
  type FullQueue,
  type PauseFacts,
} from "../../sql/doctor/controls.ts";
import type { Check } from "../check.ts";
import { note, warning, type Finding, type Seen } from "../finding.ts";

const dayMs = 86_400_000;
/** A queue that is full for longer is not a peak. */
const longFullMs = 600_000;

/** Pauses that were forgotten or not explained, and queues that refuse work for long. */
export const controls: Check = {
  name: "controls",
  needsSchema: true,
  look: async ({ session, schema }) => controlsRule(await controlFacts(session), schema),
};

export function controlsRule({ pauses, full }: ControlFacts, schema: string): Seen {
  return {
    seen: `${plural(pauses.length, "pause")}, ${plural(full.length, "full queue")}`,
    findings: [
      ...pauses.flatMap((pause) => pauseFindings(pause, schema)),
      ...full.flatMap((queue) => fullFindings(queue, schema)),
    ],
  };
}

function pauseFindings(
  { scope, name, reason, pausedBy, pausedMs, leftMs }: PauseFacts,
  schema: string,
): Finding[] {
  const what = `${scope} ${name}, paused ${formatMs(pausedMs)} ago by ${pausedBy}`;
  const resume = `Run \`${command(schema, "resume", scope, name, "--reason", "…")}\`, or give it an end with \`--for\`.`;
  const isExplained = /[\p{L}\p{N}]/u.test(reason);
  return [
    ...(pausedMs > dayMs && leftMs === null
      ? [warning("A pause without an end is older than a day", `${what}: ${reason}`, resume)]
      : []),
    ...(isExplained
      ? []
      : [
          note(
            "A pause has no reason that a person can read",
            what,
            `Pause it again with a reason. ${resume}`,
          ),
        ]),
  ];
}

const means: Readonly<Record<string, string>> = {
  reject: "refuses enqueues",
  defer: "defers new jobs",
  shed: "sheds waiting jobs",
  warn: "is over its limit",
};

function fullFindings({ queue, policy, depth, ageMs, fullMs }: FullQueue, schema: string): Finding[] {
  if (fullMs <= longFullMs) return [];
  return [
    warning(
      `A queue ${means[policy] ?? "is full"} for more than ten minutes`,
      `${queue}, full for ${formatMs(fullMs)}: ${formatCount(depth)} jobs, the oldest ready one is ${formatMs(ageMs)} old`,
      `Add workers, or find out why its jobs end slowly: \`${command(schema, "queues", "show", queue)}\`. Or raise its admission settings.`,
    ),
  ];
}
