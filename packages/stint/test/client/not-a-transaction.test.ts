import { expect, test } from "vitest";
import { defineJob, InvalidOptionError, typed, type TransactionLike } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";

const note = defineJob("note", { payload: typed<object>() });
const method = (): undefined => undefined;
const methods = (...names: string[]): Record<string, () => undefined> =>
  Object.fromEntries(names.map((name) => [name, method]));
const revoked = (): object => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
};
const throwing = new Proxy(
  {},
  {
    get: () => {
      throw new TypeError("hostile");
    },
    has: () => {
      throw new TypeError("hostile");
    },
    getPrototypeOf: () => {
      throw new TypeError("hostile");
    },
  },
);

// Doubles of clients that the suite does not install; `npm run test:orms` has the clients themselves.
const wrong: [string, unknown, RegExp][] = [
  [
    "a Prisma client",
    methods("$queryRawUnsafe", "$transaction", "$connect"),
    /the Prisma client.*\$transaction/,
  ],
  ["a Knex instance", Object.assign(() => undefined, methods("raw", "transaction")), /the Knex instance/],
  [
    "a TypeORM DataSource",
    { ...methods("query", "createQueryRunner", "initialize", "transaction"), manager: {} },
    /the TypeORM DataSource.*dataSource\.transaction/,
  ],
  [
    "a TypeORM EntityManager",
    methods("query", "getRepository", "createQueryBuilder", "withRepository"),
    /a TypeORM EntityManager on which no transaction was started/,
  ],
  [
    "a TypeORM repository",
    {
      ...methods("query"),
      metadata: {},
      manager: methods("query", "getRepository", "createQueryBuilder", "withRepository"),
    },
    /a TypeORM EntityManager on which no transaction was started/,
  ],
  [
    "a TypeORM QueryRunner",
    { ...methods("query", "startTransaction", "commitTransaction"), isTransactionActive: false },
    /a TypeORM QueryRunner on which no transaction was started/,
  ],
  [
    "a Sequelize instance",
    methods("query", "define", "transaction", "authenticate"),
    /the Sequelize instance/,
  ],
  ["a MikroORM instance", { em: methods("getTransactionContext", "getConnection") }, /the MikroORM instance/],
  ["a MikroORM EntityManager", methods("getTransactionContext", "getConnection"), /a MikroORM EntityManager/],
  [
    "a Slonik pool",
    methods("any", "maybeOne", "query", "transaction", "connect", "end"),
    /the Slonik pool.*pool\.transaction/,
  ],
  ["a revoked proxy", revoked(), /no transaction/],
  ["a proxy whose traps throw", throwing, /no transaction/],
  ["an object without a prototype", Object.create(null), /no transaction/],
  ["a proxy with every method", new Proxy({}, { get: () => method }), /not a transaction/],
  [
    "a getter that throws",
    {
      get query(): never {
        throw new TypeError("hostile");
      },
    },
    /no transaction/,
  ],
  ["a symbol", Symbol("tx"), /no transaction/],
  ["a promise of a transaction", Promise.resolve({ query: method }), /no transaction/],
];

test.each(wrong)("%s is refused by name before anything is sent", async (_, tx, message) => {
  const stint = (await freshSchema()).client();
  expect(() => stint.in(tx as TransactionLike)).toThrow(InvalidOptionError);
  expect(() => stint.in(tx as TransactionLike)).toThrow(message);
});

test("a client whose query returns nonsense is refused with the expected result", async () => {
  const stint = (await freshSchema()).client();
  for (const result of [undefined, null, 1, "rows", {}, { rows: 1 }, throwing]) {
    const tx = { query: () => result } as unknown as TransactionLike;
    await expect(stint.in(tx).enqueue(note, {})).rejects.toThrow(InvalidOptionError);
  }
});
