import { randomUUID } from "node:crypto";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { query } from "../support/database.ts";
import { ownServer } from "../support/own-server.ts";
import { until } from "../support/until.ts";
import { flatten, type PlanNode } from "../sql/explain.ts";

/** The plan some statement ran with: its name or, within a function of ours, that function's. */
export type SeenPlan = { name: string; nodes: PlanNode[] };

export type Sent = Record<string, { calls: number; rows: number }>;

/** A Postgres that counts what is sent to it and what it writes, and keeps every plan. */
export type CountedServer = {
  readonly url: string;
  /** A way in under a role of its own: what is sent under it is counted apart from everything else. */
  urlAs(role: string): Promise<string>;
  /** What the role has sent so far, by the names of the statements; by their texts where they have none. */
  sentBy(role: string): Promise<Sent>;
  /** Every plan that the role's statements, and the statements within our functions, ran with. */
  plansOf(role: string): Promise<SeenPlan[]>;
  /** How far the log of all that is written has come. */
  position(): Promise<string>;
  remove(): Promise<void>;
};

const settings = {
  shared_preload_libraries: "pg_stat_statements,auto_explain",
  "auto_explain.log_min_duration": "0",
  "auto_explain.log_format": "json",
  "auto_explain.log_nested_statements": "on",
  "auto_explain.log_parameter_max_length": "0",
  // One line for each plan, and beside it whose it was.
  logging_collector: "on",
  log_destination: "jsonlog",
  log_filename: "plans.log",
  log_rotation_age: "0",
  log_rotation_size: "0",
  // Whatever else is written would be counted.
  autovacuum: "off",
  checkpoint_timeout: "1h",
  max_wal_size: "8GB",
  full_page_writes: "off",
  shared_buffers: "256MB",
};

type LogLine = { user?: string; message?: string; context?: string };

export async function countedServer(): Promise<CountedServer> {
  const server = await ownServer(settings);
  const { url } = server;
  for (const extension of ["pg_stat_statements", "pg_walinspect"])
    await query(`create extension ${extension}`, [], url);

  const log = new LogReader(join(server.dataDir, "cluster", "log", "plans.json"));
  /** pg_stat_statements drops the comment that a name is in; the log has it beside the same number. */
  const names = new Map<string, string>();

  /** The lines of the server's log, up to now. */
  async function logged(): Promise<readonly string[]> {
    const mark = randomUUID();
    await query(`select '${mark}'`, [], url);
    await until(
      async () => {
        const more = await log.readOn();
        for (const line of more) {
          const id = /"query_id":(-?\d+)/.exec(line)?.[1];
          const name = /\/\* stint:([^*]+) \*\//.exec(line)?.[1];
          if (id !== undefined && name !== undefined) names.set(id, name);
        }
        return more.some((line) => line.includes(mark));
      },
      { message: "the server's log is written" },
    );
    return log.lines;
  }

  return {
    url,
    async urlAs(role) {
      await query(`create role "${role}" superuser login password 'counted'`, [], url);
      const own = new URL(url);
      own.username = role;
      own.password = "counted";
      return own.href;
    },
    async sentBy(role) {
      const rows = await query<{ id: string; text: string; calls: number; rows: number }>(
        `select queryid::text as id, query as text, calls::integer, rows::integer
         from pg_stat_statements
         where userid = $1::regrole`,
        [`"${role}"`],
        url,
      );
      await logged();
      const sent: Sent = {};
      for (const { id, text, calls, rows: count } of rows) {
        // The last plan of a transaction is logged when it ends, beside the number of that.
        const name = isControl(text) ? text : (names.get(id) ?? text);
        const one = (sent[name] ??= { calls: 0, rows: 0 });
        one.calls += calls;
        one.rows += count;
      }
      return sent;
    },
    async plansOf(role) {
      return (await logged()).flatMap((line) => {
        const { user, message = "", context = "" } = JSON.parse(line) as LogLine;
        const plan = /^duration: [\d.]+ ms {2}plan:\n(.*)$/s.exec(message)?.[1];
        if (user !== role || plan === undefined) return [];
        const { "Query Text": text, Plan: root } = JSON.parse(plan) as {
          "Query Text": string;
          Plan: PlanNode;
        };
        const within = /^PL\/pgSQL function (?:[^(]*\.)?(\w+)\(/m.exec(context)?.[1];
        const name =
          /^\/\* stint:([^*]+) \*\//.exec(text)?.[1] ?? (within === undefined ? text : `${within}()`);
        return [{ name, nodes: flatten(root) }];
      });
    },
    async position() {
      const [row] = await query<{ at: string }>("select pg_current_wal_flush_lsn()::text as at", [], url);
      return row!.at;
    },
    remove: () => server.remove(),
  };
}

/** Reads each part of a growing file once: some tests look at the log again and again. */
class LogReader {
  readonly lines: string[] = [];
  readonly #path: string;
  #at = 0;

  constructor(path: string) {
    this.#path = path;
  }

  /** The lines that were completed since the last call. */
  async readOn(): Promise<string[]> {
    const file = await open(this.#path);
    try {
      const size = (await file.stat()).size - this.#at;
      const { buffer, bytesRead } = await file.read(Buffer.alloc(size), 0, size, this.#at);
      const end = buffer.subarray(0, bytesRead).lastIndexOf(10) + 1;
      this.#at += end;
      const more = buffer.toString("utf8", 0, end).split("\n").slice(0, -1);
      this.lines.push(...more);
      return more;
    } finally {
      await file.close();
    }
  }
}

function isControl(text: string): boolean {
  return /^(?:begin|commit|rollback)$/i.test(text);
}
