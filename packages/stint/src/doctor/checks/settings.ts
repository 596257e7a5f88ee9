import { settingsNamed, type Setting } from "../../sql/doctor/server.ts";
import type { Check } from "../check.ts";
import { error, note, warning, type Finding, type Seen } from "../finding.ts";

/** Server settings that Stint's guarantees depend on. */
export const settings: Check = {
  name: "settings",
  needsSchema: false,
  look: async ({ session }) =>
    settingsRule(
      await settingsNamed(
        session,
        rules.map((rule) => rule.name),
      ),
    ),
};

type Rule = { name: string; judge: (setting: Setting) => Finding | undefined };

const megabyte = 2 ** 20;
const unitBytes: Record<string, number> = { B: 1, kB: 1_024, "8kB": 8_192, MB: megabyte };

function off(name: string, finding: (what: string, fix: string) => Finding): Rule {
  const fix = `As a superuser: alter system set ${name} = on; then: select pg_reload_conf();`;
  return { name, judge: ({ setting }) => (setting === "off" ? finding(`${name} is off`, fix) : undefined) };
}

const rules: readonly Rule[] = [
  off("fsync", (what, fix) => error("A crash of the machine may lose or corrupt everything", what, fix)),
  off("full_page_writes", (what, fix) => error("A crash of the machine may corrupt tables", what, fix)),
  off("synchronous_commit", (what, fix) =>
    warning("A crash of the server may lose committed enqueues and settles", `${what} for this role`, fix),
  ),
  off("autovacuum", (what, fix) =>
    error("Autovacuum is off, so claims become slower without limit", what, fix),
  ),
  off("track_counts", (what, fix) => error("Autovacuum cannot see which rows are dead", what, fix)),
  {
    name: "idle_in_transaction_session_timeout",
    judge: ({ setting }) =>
      setting === "0"
        ? note(
            "A forgotten transaction may stay open forever and pin the xmin horizon",
            "idle_in_transaction_session_timeout is 0",
            "For the role of your application: alter role <name> set idle_in_transaction_session_timeout = '5min';",
          )
        : undefined,
  },
  {
    name: "max_wal_size",
    judge: ({ setting, unit }) => {
      const size = (Number(setting) * (unitBytes[unit ?? "B"] ?? 1)) / megabyte;
      return size < 512
        ? warning(
            "Checkpoints come very often under load, each with a burst of full page writes",
            `max_wal_size is ${size} MB`,
            "As a superuser: alter system set max_wal_size = '4GB'; then: select pg_reload_conf();",
          )
        : undefined;
    },
  },
];

export function settingsRule(found: readonly Setting[]): Seen {
  const findings = rules.flatMap((rule) => {
    const setting = found.find((one) => one.name === rule.name);
    const finding = setting === undefined ? undefined : rule.judge(setting);
    return finding === undefined ? [] : [finding];
  });
  return { seen: `${found.length} settings`, findings };
}
