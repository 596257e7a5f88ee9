import { Pool, type QueryResultRow } from "pg";

/** The benchmark's own statements on a system's store: fill, query, empty. One connection, opened at first use. */
export class Sql {
  readonly #pool: Pool;

  constructor(url: string) {
    this.#pool = new Pool({ connectionString: url, max: 1, idleTimeoutMillis: 0 });
    this.#pool.on("error", () => undefined);
  }

  async run(text: string, values?: unknown[]): Promise<void> {
    await this.#pool.query(text, values);
  }

  async all<Found extends QueryResultRow>(text: string): Promise<Found[]> {
    return (await this.#pool.query<Found>(text)).rows;
  }

  /** The single value of a single-row result. */
  async isTrue(text: string): Promise<boolean> {
    const [row] = await this.all<{ value: boolean }>(`select (${text}) as value`);
    return row?.value === true;
  }

  async end(): Promise<void> {
    await this.#pool.end();
  }
}

/** The payload of `actor/payload.ts`, made by the server from the number `n`. */
export const payloadSql = `jsonb_build_object('n', n, 'at', 0, 'filler', repeat('x', 60))`;
