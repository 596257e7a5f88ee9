import { Argument, Option, type Command } from "commander";
import { toMs } from "../../model/duration.ts";
import { checkText } from "../../model/names.ts";
import { requireInteger } from "../../model/options.ts";
import { toYaml } from "../../runtime/yaml.ts";
import { alertRules } from "../../telemetry/alerts.ts";
import { grafanaDashboard } from "../../telemetry/grafana.ts";
import { deployment, scaledDeployment } from "../../telemetry/kubernetes.ts";
import { workersNeededSql } from "../../sql/workers-needed.ts";
import { resolveWorkerOptions, type PoolOptions, type WorkerOptions } from "../../worker/options.ts";
import { InvalidOptionError } from "../../errors.ts";
import { examples, integer, runs } from "../command.ts";
import type { Context } from "../context.ts";

const things = ["grafana", "alerts", "k8s"] as const;

type Flags = {
  name: string;
  image: string;
  healthPort: number;
  keda?: boolean;
  target?: string;
  max: number;
  most?: number;
};

export function addExport(program: Command): void {
  const command = program
    .command("export")
    .summary("print a Grafana dashboard, alert rules or a Kubernetes Deployment");
  command
    .description(
      "Print files for the systems around Stint: a Grafana dashboard (JSON), alert rules for Prometheus (YAML), or a\n" +
        "Kubernetes Deployment for the worker (YAML). They are made from the same list as the metrics themselves.",
    )
    .addArgument(new Argument("<what>", "what to print").choices(things))
    .option("--name <name>", "k8s: the name of the Deployment and its secret", "stint-worker")
    .option("--image <image>", "k8s: the image of your project", "your-registry/your-app:latest")
    .option("--health-port <port>", "k8s: the port for probes and metrics", integer, 8080)
    .option("--keda", "k8s: let KEDA scale the workers to the load, by the pools of the config")
    .option(
      "--target <duration>",
      "k8s --keda: finish ready jobs within this time (default: the target age of each queue)",
    )
    .option("--max <workers>", "k8s --keda: the maximum number of workers", integer, 10)
    .addOption(new Option("--most <workers>", "the former name of --max").argParser(integer).hideHelp());
  examples(
    command,
    "stint export grafana > grafana.json",
    "stint export alerts > stint.rules.yml",
    "stint export k8s --name jobs --image registry.example/app:1.4 | kubectl apply -f -",
    "stint export k8s --keda --target 2m --max 20 > worker.yml",
  );
  runs<Flags>(command, async (context, { options, args: [what = ""] }) => {
    const value =
      what === "grafana"
        ? grafanaDashboard()
        : what === "alerts"
          ? alertRules()
          : await forCluster(context, options);
    if (what === "grafana" || context.out.json) context.out.document(value);
    else context.out.script(toYaml(value));
  });
}

async function forCluster(context: Context, flags: Flags): Promise<object> {
  const { name, image, healthPort } = flags;
  const config = await context.config();
  // How long it may take to stop is what the config says, if there is one.
  const { drain = "20s", abort = "5s" } = config?.worker ?? {};
  const options = {
    name: checkText(name, "--name", { max: 63 }),
    image: checkText(image, "--image"),
    port: requireInteger("--health-port", healthPort, { min: 1, max: 65_535 }),
    drainMs: toMs(drain, "worker.drain"),
    abortMs: toMs(abort, "worker.abort"),
  };
  if (flags.keda !== true) return deployment(options);
  return scaledDeployment({
    ...options,
    most: requireInteger("--max", flags.most ?? flags.max, { min: 1 }),
    query: workersNeededSql(
      poolsOf(config?.worker),
      flags.target === undefined ? undefined : toMs(flags.target, "--target", { min: 1_000 }),
      await context.schema(),
    ),
  });
}

function poolsOf(worker: WorkerOptions | undefined): readonly PoolOptions[] {
  if (worker !== undefined) return resolveWorkerOptions(worker).pools;
  throw new InvalidOptionError(
    "--keda",
    "needs to know the pools: run it where stint.config.ts is, with a worker in it",
  );
}
