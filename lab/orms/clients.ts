import "reflect-metadata";
import { MikroORM } from "@mikro-orm/postgresql";
import knexOf from "knex";
import { Sequelize } from "sequelize";
import { createPool, type DatabaseTransactionConnection } from "slonik";
import type { TransactionLike } from "stint";
import { DataSource } from "typeorm";
import { openPrisma } from "./prisma-client.ts";

/** A client with one connection. */
export type OrmClient = {
  /** Runs the work in a transaction: committed if it resolves, rolled back if it rejects. */
  begin(work: (tx: TransactionLike) => Promise<void>): Promise<void>;
  /** Values that are no transaction, with the message of their refusal. */
  readonly wrong: readonly (readonly [unknown, RegExp])[];
  close(): Promise<void>;
};

async function prisma(url: string): Promise<OrmClient> {
  const client = openPrisma(url);
  return {
    begin: (work) => client.$transaction((tx) => work(tx)),
    wrong: [[client, /the Prisma client.*prisma\.\$transaction/]],
    close: () => client.$disconnect(),
  };
}

async function knex(url: string): Promise<OrmClient> {
  const client = knexOf({ client: "pg", connection: url, pool: { min: 0, max: 1 } });
  return {
    begin: (work) => client.transaction((trx) => work(trx)),
    wrong: [[client, /the Knex instance.*knex\.transaction/]],
    close: () => client.destroy(),
  };
}

async function typeOrm(url: string): Promise<OrmClient> {
  const source = await new DataSource({ type: "postgres", url, poolSize: 1, entities: [] }).initialize();
  const runner = source.createQueryRunner();
  return {
    begin: (work) => source.transaction((manager) => work(manager)),
    wrong: [
      [source, /the TypeORM DataSource.*dataSource\.transaction/],
      [source.manager, /a TypeORM EntityManager on which no transaction.*dataSource\.transaction/],
      [runner, /a TypeORM QueryRunner on which no transaction.*dataSource\.transaction/],
    ],
    close: () => source.destroy(),
  };
}

async function typeOrmRunner(url: string): Promise<OrmClient> {
  const source = await new DataSource({ type: "postgres", url, poolSize: 1, entities: [] }).initialize();
  return {
    async begin(work) {
      const runner = source.createQueryRunner();
      await runner.startTransaction();
      try {
        await work(runner);
        await runner.commitTransaction();
      } catch (error) {
        await runner.rollbackTransaction();
        throw error;
      } finally {
        await runner.release();
      }
    },
    wrong: [],
    close: () => source.destroy(),
  };
}

async function sequelize(url: string): Promise<OrmClient> {
  const client = new Sequelize(url, { logging: false, pool: { max: 1 } });
  return {
    begin: (work) => client.transaction((transaction) => work(transaction)),
    wrong: [[client, /the Sequelize instance.*sequelize\.transaction/]],
    close: () => client.close(),
  };
}

async function sequelizeOptions(url: string): Promise<OrmClient> {
  const client = new Sequelize(url, { logging: false, pool: { max: 1 } });
  return {
    begin: (work) => client.transaction((transaction) => work({ transaction })),
    wrong: [],
    close: () => client.close(),
  };
}

async function mikroOrm(url: string): Promise<OrmClient> {
  const orm = await MikroORM.init({
    clientUrl: url,
    entities: [],
    discovery: { warnWhenNoEntities: false },
    pool: { min: 0, max: 1 },
  });
  return {
    begin: (work) => orm.em.fork().transactional((em) => work(em)),
    wrong: [
      [orm, /the MikroORM instance.*em\.transactional/],
      [orm.em.fork(), /a MikroORM EntityManager on which no transaction.*em\.transactional/],
    ],
    close: () => orm.close(),
  };
}

async function slonik(url: string): Promise<OrmClient> {
  const pool = await createPool(url, { maximumPoolSize: 1 });
  return {
    begin: (work) => pool.transaction((tx: DatabaseTransactionConnection) => work(tx)),
    wrong: [[pool, /the Slonik pool.*pool\.transaction/]],
    close: () => pool.end(),
  };
}

export const orms: [string, (url: string) => Promise<OrmClient>][] = [
  ["Prisma", prisma],
  ["Knex", knex],
  ["TypeORM's manager", typeOrm],
  ["TypeORM's QueryRunner", typeOrmRunner],
  ["Sequelize", sequelize],
  ["Sequelize's { transaction }", sequelizeOptions],
  ["MikroORM", mikroOrm],
  ["Slonik", slonik],
];
