import "reflect-metadata";
import type { DynamicModule, OnApplicationBootstrap, OnApplicationShutdown } from "@nestjs/common";
import { createStint, defineJob, handle, silentLogger, type Stint, type Worker } from "stint";
import { z } from "zod";

export const sendReceipt = defineJob("send-receipt", { payload: z.object({ paymentId: z.string() }) });

/** The token of the client: `@Inject(STINT) stint: Stint` in controllers and services. */
export const STINT = Symbol("stint");

/** Handlers use the services of the application, as controllers do. */
export class Mailer {
  readonly sent: string[] = [];

  async sendReceipt(paymentId: string): Promise<void> {
    this.sent.push(paymentId);
  }
}

/** Starts and stops with the application. Without `app.enableShutdownHooks()`, Nest ignores SIGTERM. */
export class JobWorker implements OnApplicationBootstrap, OnApplicationShutdown {
  readonly #stint: Stint;
  readonly #worker: Worker;

  constructor(stint: Stint, mailer: Mailer) {
    this.#stint = stint;
    this.#worker = stint.worker({
      pools: { default: 5 },
      signals: false,
      handlers: [handle(sendReceipt, async ({ payload }) => await mailer.sendReceipt(payload.paymentId))],
    });
  }

  async onApplicationBootstrap(): Promise<void> {
    await this.#worker.start();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.#stint.close();
  }
}

/** Factory providers need no decorators and no compiler that emits decorator metadata. */
// oxlint-disable-next-line typescript/no-extraneous-class -- how Nest names modules with options
export class WorkerModule {
  static forDatabase(database: string, schema: string): DynamicModule {
    return {
      module: WorkerModule,
      providers: [
        {
          provide: STINT,
          useFactory: () => createStint({ database, schema, logger: silentLogger, jobs: [sendReceipt] }),
        },
        { provide: Mailer, useFactory: () => new Mailer() },
        {
          provide: JobWorker,
          useFactory: (stint: Stint, mailer: Mailer) => new JobWorker(stint, mailer),
          inject: [STINT, Mailer],
        },
      ],
      exports: [STINT],
    };
  }
}
