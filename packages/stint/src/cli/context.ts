import { readFile } from "node:fs/promises";
import { userInfo } from "node:os";
import { dirname, join } from "node:path";
import type { StintOptions } from "../client/options.ts";
import { dbErrorCategory } from "../db/sqlstate.ts";
import { InvalidOptionError, SchemaVersionError, StintError } from "../errors.ts";
import { checkSchemaName } from "../model/names.ts";
import { isPool, shownConnection, type Connection } from "../db/connection.ts";
import { jsonLogger, silentLogger, type Logger } from "../runtime/logger.ts";
import { migrateHint, schemaVersion } from "../sql/schema-version.ts";
import type { Stint } from "../stint.ts";
import { configNames, findConfig, loadConfig, type ConfigFile } from "./config-file.ts";
import { say, Output } from "./output.ts";

/** Options that every command takes. */
export type GlobalOptions = {
  databaseUrl?: string;
  schema?: string;
  config?: string;
  json?: boolean;
  color?: boolean;
  verbose?: boolean;
};

export type Database = Connection;

/** What a command works with: the output, and the config, database and schema of this invocation, found when asked for. */
export class Context {
  readonly out: Output;
  readonly verbose: boolean;
  readonly #globals: GlobalOptions;
  #path: Promise<string | undefined> | undefined;
  #config: Promise<ConfigFile | undefined> | undefined;
  #options: Promise<Partial<StintOptions>> | undefined;
  #client: Stint | undefined;
  #where: string | undefined;

  constructor(globals: GlobalOptions) {
    this.#globals = globals;
    this.out = new Output(globals);
    this.verbose = globals.verbose === true || isSet(process.env["STINT_DEBUG"]);
  }

  get globals(): GlobalOptions {
    return this.#globals;
  }

  /** The config file, if there is one. */
  async config(): Promise<ConfigFile | undefined> {
    this.#config ??= this.#configPath().then((path) => (path === undefined ? undefined : loadConfig(path)));
    return await this.#config;
  }

  /** The config file, for commands that are nothing without its kinds and handlers. */
  async requireConfig(): Promise<ConfigFile> {
    return (await this.config()) ?? missingConfig();
  }

  /** --database-url, then DATABASE_URL, then the config, then a `stint dev` that runs in this folder. */
  async database(): Promise<Database> {
    const database = await this.findDatabase();
    if (database !== undefined) return database;
    throw new InvalidOptionError(
      "DATABASE_URL",
      "is not set. Set it, pass --database-url, name the database in stint.config.ts, or run `npx stint dev` beside this",
    );
  }

  /** The same, for who can do without. */
  async findDatabase(): Promise<Database | undefined> {
    const explicit = explicitUrl(this.#globals);
    if (explicit !== undefined) return this.#remember(explicit);
    const database = (await this.#settings()).database ?? (await this.#devUrl());
    if (isPool(database))
      throw new InvalidOptionError(
        "DATABASE_URL",
        "is not set, and the database in the config is a pool, whose address commands cannot read. Set it, or pass --database-url",
      );
    return database === undefined || database === "" ? undefined : this.#remember(database);
  }

  async schema(): Promise<string> {
    const schema = this.#globals.schema;
    if (schema !== undefined) return checkSchemaName(schema, "--schema");
    return checkSchemaName((await this.#settings()).schema ?? "stint", "schema");
  }

  /** The client of this invocation. It logs nothing: the command's error reports what happened, once. */
  async client({ logger }: { logger?: Logger } = {}): Promise<Stint> {
    const { createStint } = await import("../create-stint.ts");
    const database = await this.database();
    const schema = await this.schema();
    // Only if it had to be loaded anyway: looking at jobs must not need code that may be broken.
    const options = this.#config === undefined ? {} : await this.#settings();
    this.#client ??= createStint({
      ...options,
      logger: logger ?? (this.verbose ? jsonLogger({ level: "debug" }) : silentLogger),
      actor: actor(),
      database,
      schema,
    });
    return this.#client;
  }

  async close(): Promise<void> {
    await this.#client?.close();
    this.#client = undefined;
  }

  /** An error of the driver in the words of what to do about it, and lines that help to place it. */
  async explain(error: unknown): Promise<{ error: unknown; hints: string[] }> {
    if (!(error instanceof StintError) && dbErrorCategory(error) === "schema") {
      const schema = await this.schema();
      const remedy = `${migrateHint(schema)}, then try again.`;
      return { error: new SchemaVersionError(schema, undefined, schemaVersion, remedy), hints: [] };
    }
    const unreachable = error instanceof StintError && error.code === "DATABASE_UNAVAILABLE";
    return { error, hints: unreachable && this.#where !== undefined ? [`Database: ${this.#where}`] : [] };
  }

  /**
   * The options in the config. While `stint dev` runs in this folder they are done without if the config is broken:
   * that is when one wants to look at jobs most.
   */
  async #settings(): Promise<Partial<StintOptions>> {
    this.#options ??= this.config().then(
      (config) => config?.options ?? {},
      async (error: unknown) => {
        // A database that was named is not dev's: which schema of it is meant, only the config knows.
        const isDev = explicitUrl(this.#globals) === undefined && isSet(await this.#devUrl());
        if (!isDev) throw error;
        this.out.warn(
          say`Without the config, on the Postgres of \`stint dev\`: ${error instanceof Error ? error.message : String(error)}`,
        );
        return {};
      },
    );
    return await this.#options;
  }

  async #configPath(): Promise<string | undefined> {
    this.#path ??= findConfig(this.#globals.config);
    return await this.#path;
  }

  async #devUrl(): Promise<string | undefined> {
    const path = await this.#configPath();
    const folder = path === undefined ? process.cwd() : dirname(path);
    return await readFile(devUrlFile(folder), "utf8").then(
      (text) => text.trim(),
      () => undefined,
    );
  }

  #remember(database: Database): Database {
    if (typeof database === "string") this.#where = shownConnection(database);
    return database;
  }
}

export function explicitUrl(globals: GlobalOptions): string | undefined {
  return [globals.databaseUrl, process.env["DATABASE_URL"]].find(isSet);
}

export function missingConfig(): never {
  throw new InvalidOptionError(
    "--config",
    `is needed: there is no ${configNames[0]} (nor .js, .mjs) in ${process.cwd()}. ` +
      "Write one with `export default defineConfig({ worker: { pools: { default: 10 }, handlers: [ … ] } })`",
  );
}

/** Where `stint dev` notes the URL of its Postgres while it runs. */
export function devUrlFile(folder: string): string {
  return join(folder, ".stint", "url");
}

/** Who acts, for the audit. */
export function actor(): string {
  try {
    return `cli:${userInfo().username}`;
  } catch {
    return "cli";
  }
}

function isSet(value: string | undefined): value is string {
  return value !== undefined && value !== "";
}
