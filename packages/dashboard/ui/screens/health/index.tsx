import { EmptyState } from "../../components/empty-state.tsx";
import { GoTo } from "../../components/link.tsx";
import { zoomSearch } from "../../components/zoom.tsx";
import { Failed, Page } from "../../components/page.tsx";
import { useHealth } from "../../queries.ts";
import type { Screen } from "../../screen.ts";
import { Alerts } from "./alerts.tsx";
import { LandingCharts } from "./landing-charts.tsx";
import { QueueRows } from "./queue-rows.tsx";
import { Totals } from "./totals.tsx";
import "./health.css";

export const screen: Screen = {
  path: "/",
  title: "Health",
  icon: "M1.5 8.5h3l2-5.5 3 10.5 2.2-5h2.8",
  key: "h",
  search: zoomSearch,
  component: Health,
};

function Health() {
  const { data, error, refetch } = useHealth();
  return (
    <Page title="Health" note="Queues by how soon their oldest ready job passes its target">
      {error !== null && data === undefined && <Failed error={error} again={() => void refetch()} />}
      {data !== undefined && <Alerts health={data} />}
      {data?.queues.length === 0 ? (
        <NothingYet />
      ) : (
        (data !== undefined || error === null) && (
          <>
            <Totals health={data} />
            <LandingCharts />
            <QueueRows queues={data?.queues} at={data?.at} />
          </>
        )
      )}
    </Page>
  );
}

function NothingYet() {
  return (
    <EmptyState
      title="No job has been enqueued yet"
      code={`import { createStint, defineJob, handle, typed } from "stint";

const sendReceipt = defineJob("send-receipt", { queue: "notification", payload: typed<{ paymentId: string }>() });
const stint = createStint({ database: process.env["DATABASE_URL"]! });

await stint.enqueue(sendReceipt, { paymentId: "p_42" });

const worker = stint.worker({
  pools: { notification: 8 },
  handlers: [handle(sendReceipt, async ({ payload }) => console.log("sent", payload.paymentId))],
});
await worker.start();`}
    >
      A queue appears here with its first job. Enqueue one, start a worker, and watch this page: it updates
      automatically. <GoTo path="/workers">Workers</GoTo> lists the workers that run.
    </EmptyState>
  );
}
