import { EmptyState } from "../../components/empty-state.tsx";
import { Banner, Failed, Page, Section } from "../../components/page.tsx";
import { GoTo } from "../../components/link.tsx";
import { Rows } from "../../components/rows.tsx";
import { duration, number, plural } from "../../format.ts";
import { useHealth, useWorkers } from "../../queries.ts";
import type { Screen } from "../../screen.ts";
import { Stops } from "./stops.tsx";
import { WorkerRows } from "./worker-rows.tsx";
import "./workers.css";

export const screen: Screen = {
  path: "/workers",
  title: "Workers",
  icon: "M3 3h4v4H3zM9 3h4v4H9zM3 9h4v4H3zM9 9h4v4H9z",
  key: "w",
  component: Workers,
};

function Workers() {
  const { data: workers, error, refetch } = useWorkers();
  const { data: health } = useHealth();
  const unserved = health?.unserved ?? [];
  const versions = [...new Set(workers?.map(({ version }) => version))];
  const behind = workers?.filter((worker) => worker.behind).length ?? 0;
  const responsive = workers?.filter((worker) => !worker.unresponsive) ?? [];
  const unresponsive = (workers?.length ?? 0) - responsive.length;
  const busy = responsive.reduce((sum, worker) => sum + worker.busy, 0);
  const slots = responsive.reduce((sum, worker) => sum + worker.slots, 0);

  return (
    <Page
      title="Workers"
      note={
        workers === undefined
          ? " "
          : `${plural(responsive.length, "worker")}, ${number(busy)} of ${plural(slots, "slot")} busy` +
            (unresponsive === 0 ? "" : `; ${number(unresponsive)} not responding`)
      }
    >
      {error !== null && workers === undefined && <Failed error={error} again={() => void refetch()} />}
      {behind > 0 && (
        <Banner tone="soon" title={`${plural(behind, "worker")} behind the newest version.`}>
          Running now: {versions.join(", ")}. This is normal during a deploy; after it, restart the old
          workers.
        </Banner>
      )}
      {workers?.length === 0 ? (
        <EmptyState
          title="No worker is running"
          code={`const worker = stint.worker({ pools: { default: 10 }, handlers });\nawait worker.start();`}
        >
          Jobs wait safely until one starts. Run <code>npx stint worker</code>, or start one in your own
          process:
        </EmptyState>
      ) : (
        (workers !== undefined || error === null) && <WorkerRows workers={workers} />
      )}
      {unserved.length > 0 && (
        <Section
          title="Kinds that no worker serves"
          aside="Their jobs wait until a worker with a handler starts"
        >
          <Rows
            label="Kinds that no worker serves"
            columns={[
              {
                title: "Kind",
                head: true,
                sort: ({ kind }) => kind,
                cell: ({ kind, queue }) => (
                  <GoTo path="/jobs" search={{ kind, queue, state: "ready" }}>
                    {kind}
                  </GoTo>
                ),
              },
              { title: "Queue", sort: ({ queue }) => queue, cell: ({ queue }) => queue },
              {
                title: "Oldest ready",
                number: true,
                sort: ({ oldestReadyMs }) => oldestReadyMs,
                cell: ({ oldestReadyMs }) => duration(oldestReadyMs),
              },
            ]}
            items={unserved}
            id={({ kind, queue }) => `${queue} ${kind}`}
            open={({ kind, queue }) => ({ path: "/jobs", search: { kind, queue, state: "ready" } })}
          />
        </Section>
      )}
      <Stops />
    </Page>
  );
}
