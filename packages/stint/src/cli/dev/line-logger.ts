import type { Logger } from "../../runtime/logger.ts";
import { say, paint, toJson, type Output, type Style } from "../output.ts";

const styles: Record<"info" | "warn" | "error", Style> = { info: "cyan", warn: "yellow", error: "red" };

/** Readable log lines. Outcomes of attempts are left out, because `stint dev` prints those itself. */
export function lineLogger(out: Output, bound: object = {}): Logger {
  const at =
    (level: keyof typeof styles) =>
    (fields: object, message: string): void => {
      if ("outcome" in fields) return;
      const time = new Date().toTimeString().slice(0, 8);
      const rest = fieldsText({ ...bound, ...fields });
      out.note(say`${paint("dim", time)} ${paint(styles[level], level)} ${message}${paint("dim", rest)}`);
    };
  return {
    debug: () => undefined,
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: (fields) => lineLogger(out, { ...bound, ...fields }),
  };
}

/** Never throws: a log line must not fail a job. */
function fieldsText(fields: object): string {
  try {
    return Object.entries(fields)
      .filter(([name, value]) => name !== "worker" && value !== undefined && value !== null)
      .map(([name, value]) => ` ${name}=${fieldText(value)}`)
      .join("");
  } catch {
    return "";
  }
}

function fieldText(value: unknown): string {
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  return typeof value === "string" ? value : (toJson(value) ?? "");
}
