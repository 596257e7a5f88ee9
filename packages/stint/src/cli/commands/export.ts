import { Argument, type Command } from "commander";
import { toMs } from "../../model/duration.ts";
import { checkText } from "../../model/names.ts";
import { requireInteger } from "../../model/options.ts";
import { toYaml } from "../../runtime/yaml.ts";
import { alertRules } from "../../signals/alerts.ts";
import { grafanaDashboard } from "../../signals/grafana.ts";
import { deployment } from "../../signals/kubernetes.ts";
import { examples, integer, runs } from "../command.ts";
import type { Context } from "../context.ts";

const things = ["grafana", "alerts", "k8s"] as const;

type Flags = { name: string; image: string; healthPort: number };

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
    .option("--name <name>", "k8s: what the Deployment and its secret are called", "stint-worker")
    .option("--image <image>", "k8s: the image that holds your project", "your-registry/your-app:latest")
    .option("--health-port <port>", "k8s: the port for probes and metrics", integer, 8080);
  examples(
    command,
    "stint export grafana > grafana.json",
    "stint export alerts > stint.rules.yml",
    "stint export k8s --name jobs --image registry.example/app:1.4 | kubectl apply -f -",
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

async function forCluster(context: Context, { name, image, healthPort }: Flags): Promise<object> {
  // How long it may take to stop is what the config says, if there is one.
  const { drain = "20s", abort = "5s" } = (await context.config())?.worker ?? {};
  return deployment({
    name: checkText(name, "--name", { max: 63 }),
    image: checkText(image, "--image"),
    port: requireInteger("--health-port", healthPort, { min: 1, max: 65_535 }),
    drainMs: toMs(drain, "worker.drain"),
    abortMs: toMs(abort, "worker.abort"),
  });
}
