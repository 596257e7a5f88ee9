import type { Checked, Finding, Level } from "../../doctor/finding.ts";
import { plural } from "../../model/figures.ts";
import type { Report } from "../../doctor/doctor.ts";
import { paint, say, type Output, type Painted, type Style } from "../output.ts";
import { table, type Column } from "../table.ts";

const styles: Record<Level | "ok", Style> = {
  ok: "green",
  note: "cyan",
  warning: "yellow",
  error: ["red", "bold"],
};
const levels: readonly Level[] = ["error", "warning", "note"];

/** What was looked at, then what was found, the worst first, each with its fix. */
export function showReport(out: Output, report: Report): void {
  table(out, columns, report.checks);
  for (const level of levels) {
    for (const { check, findings } of report.checks) {
      for (const finding of findings.filter((one) => one.level === level)) showFinding(out, check, finding);
    }
  }
  out.line(say``);
  out.line(say`${summary(report)}`);
}

/** The worst of a check, or "ok". */
export function resultOf({ findings }: Checked): Level | "ok" {
  return levels.find((level) => findings.some((finding) => finding.level === level)) ?? "ok";
}

const columns: readonly Column<Checked>[] = [
  { title: "CHECK", cell: (checked) => checked.check },
  { title: "RESULT", cell: (checked) => painted(resultOf(checked)) },
  { title: "SEEN", cell: (checked) => checked.seen, most: 160 },
];

function showFinding(out: Output, check: string, { level, title, what, fix }: Finding): void {
  out.line(say``);
  out.line(say`${painted(level)} ${title} ${paint("dim", `(${check})`)}`);
  out.line(say`  ${what}`);
  out.line(say`  Fix: ${fix}`);
}

function painted(level: Level | "ok"): Painted {
  return paint(styles[level], level);
}

function summary({ checks, counts }: Report): Painted {
  const found = levels.filter((level) => counts[level] > 0).map((level) => plural(counts[level], level));
  if (found.length === 0) return paint("green", `${checks.length} checks, nothing found.`);
  return paint(
    styles[levels.find((level) => counts[level] > 0) ?? "ok"],
    `${checks.length} checks: ${found.join(", ")}.`,
  );
}
