import { PrismaPg } from "@prisma/adapter-pg";
import { getPrismaClient } from "@prisma/client/runtime/client";

/** Where the client keeps its query compiler. */
const compiler = "@prisma/client/runtime/query_compiler_fast_bg.postgresql";

/**
 * The real Prisma client, made as the file that `prisma generate` writes makes it, for a schema without models. Generating
 * it would download an engine that raw queries do not need.
 */
const PrismaClient = getPrismaClient({
  previewFeatures: [],
  clientVersion: "7.10.0",
  engineVersion: "0000000000000000000000000000000000000000",
  activeProvider: "postgresql",
  inlineSchema:
    'generator client {\n  provider = "prisma-client"\n}\n\ndatasource db {\n  provider = "postgresql"\n}\n',
  runtimeDataModel: { models: {}, enums: {}, types: {} },
  parameterizationSchema: { strings: [], graph: "AAAA" },
  compilerWasm: {
    getRuntime: async () => (await import(`${compiler}.mjs`)) as never,
    getQueryCompilerWasmModule: async () => {
      const { wasm } = (await import(`${compiler}.wasm-base64.mjs`)) as { wasm: string };
      return new WebAssembly.Module(Buffer.from(wasm, "base64"));
    },
    importName: "./query_compiler_fast_bg.js",
  },
});

type Raw = { $queryRawUnsafe(text: string, ...values: unknown[]): Promise<unknown> };
export type Prisma = Raw & {
  $transaction<T>(work: (tx: Raw) => Promise<T>): Promise<T>;
  $connect(): Promise<void>;
  $disconnect(): Promise<void>;
};

export function openPrisma(connectionString: string): Prisma {
  const adapter = new PrismaPg({ connectionString, max: 1 });
  return new PrismaClient({ adapter }) as unknown as Prisma;
}
