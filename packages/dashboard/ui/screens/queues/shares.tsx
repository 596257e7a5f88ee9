import type { Stats, WaitingTenants } from "stint/inspect";
import type { Wire } from "../../api.ts";
import { Bar } from "../../components/bar.tsx";
import { GoTo } from "../../components/link.tsx";
import { Failed, Section } from "../../components/page.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { Rows, type Column } from "../../components/rows.tsx";
import { duration, number } from "../../format.ts";
import { useStats, useTenants } from "../../queries.ts";
import { queueColumn } from "./queue-column.tsx";
import "./shares.css";

/** Whose work it is: one tenant that fills a queue is behind many a slow morning. */
export function Shares() {
  const stats = useStats();
  const waiting = useTenants();
  // Both at once where both come, so that nothing jumps. One that fails does not take the other with it.
  const asking = [stats, waiting].some(({ data, failureCount }) => data === undefined && failureCount === 0);
  if (asking) return null;
  const failed = [stats, waiting].map(({ data, error, refetch }, index) =>
    data === undefined && error !== null ? (
      <Failed key={index} error={error} again={() => void refetch()} />
    ) : null,
  );
  const priorities =
    stats.data === undefined ? null : <Priorities all={severalPriorities(stats.data.byPriority)} />;
  if (stats.data?.hidden === true || waiting.data?.hidden === true) {
    return (
      <>
        {failed}
        <div className="shares">
          <HiddenTenants />
          {priorities}
        </div>
      </>
    );
  }
  const none = stats.data?.topTenants.length === 0 && waiting.data?.tenants.length === 0;
  return (
    <>
      {failed}
      {none ? (
        <div className="shares">
          <NoTenants />
          {priorities}
        </div>
      ) : (
        <div className="shares">
          <div>
            {waiting.data === undefined ? null : <Waiting waiting={waiting.data} />}
            {priorities}
          </div>
          {stats.data === undefined ? null : <Served tenants={stats.data.topTenants} />}
        </div>
      )}
    </>
  );
}

function HiddenTenants() {
  return (
    <Section title="Tenants">
      <p className="card card-padded muted">
        Not told to your role, because values are redacted here, which the name of a tenant may repeat. Ask
        for the right to see payloads.
      </p>
    </Section>
  );
}

function NoTenants() {
  return (
    <Section title="Tenants">
      <p className="card card-padded muted">
        Say whose a job is when you enqueue it, as in <code>{'{ tenant: "acme" }'}</code>, and here stands
        whose jobs wait, and who was served in the last hour.
      </p>
    </Section>
  );
}

type Priority = Wire<Stats>["byPriority"][number];

/** Every job may have one of its own. */
const mostPriorities = 50;

function Priorities({ all }: { readonly all: readonly Priority[] }) {
  if (all.length === 0) return null;
  return (
    <Section title="By priority" aside="lower numbers run first">
      <Rows
        few
        label="Depth by priority"
        columns={priorityColumns}
        items={all.slice(0, mostPriorities)}
        id={({ queue, priority }) => `${queue} ${priority}`}
      />
      {all.length > mostPriorities ? (
        <p className="muted">
          The first {mostPriorities} of {number(all.length)}.
        </p>
      ) : null}
    </Section>
  );
}

/** A queue of one priority says nothing by it. */
function severalPriorities(all: readonly Priority[]): readonly Priority[] {
  const ofQueue = new Map<string, number>();
  for (const { queue } of all) ofQueue.set(queue, (ofQueue.get(queue) ?? 0) + 1);
  return all.filter(({ queue }) => (ofQueue.get(queue) ?? 0) > 1);
}

const priorityColumns: readonly Column<Priority>[] = [
  queueColumn,
  { title: "Priority", number: true, cell: ({ priority }) => priority },
  { title: "Ready", number: true, cell: ({ depth }) => number(depth.ready) },
  { title: "Running", number: true, cell: ({ depth }) => number(depth.running) },
  {
    title: "Waiting",
    number: true,
    leaves: "next",
    cell: ({ depth }) => number(depth.scheduled + depth.retrying + depth.parked),
  },
  {
    title: "Dead",
    number: true,
    cell: ({ depth }) => <span className={depth.dead > 0 ? "bad" : "muted"}>{number(depth.dead)}</span>,
  },
];

function Waiting({ waiting: { tenants, of } }: { readonly waiting: WaitingTenants }) {
  return (
    <Section
      title="Tenants that wait"
      aside={of.capped ? `among the next ${number(of.count)} ready` : "among the ready jobs"}
    >
      {tenants.length === 0 ? (
        <p className="card card-padded muted">
          {of.count === 0 ? "Nothing waits." : "None of the ready jobs has a tenant."}
        </p>
      ) : (
        <Rows
          few
          label="Tenants that wait"
          columns={[
            tenantColumn("ready"),
            { title: "Ready", number: true, cell: ({ ready }) => number(ready) },
            {
              title: "Share",
              cell: ({ tenant, ready }) => (
                <span className="share-bar">
                  <Bar
                    value={ready}
                    limit={of.count}
                    label={`${tenant}: ${number(ready)} of ${number(of.count)}`}
                  />
                </span>
              ),
            },
          ]}
          items={tenants}
          id={({ tenant }) => tenant}
        />
      )}
    </Section>
  );
}

function Served({ tenants }: { readonly tenants: Wire<Stats>["topTenants"] }) {
  return (
    <Section title="Tenants that were served" aside="in the last hour">
      {tenants.length === 0 ? (
        <p className="card card-padded muted">No attempt of a job with a tenant ended in the last hour.</p>
      ) : (
        <Rows
          few
          label="Tenants that were served"
          columns={[
            tenantColumn(),
            { title: "Attempts ended", number: true, cell: ({ ended }) => number(ended) },
            { title: "Time run", number: true, cell: ({ runMs }) => duration(runMs) },
          ]}
          items={tenants}
          id={({ tenant }) => tenant}
        />
      )}
    </Section>
  );
}

function tenantColumn<Item extends { readonly tenant: string }>(state?: "ready"): Column<Item> {
  return {
    title: "Tenant",
    head: true,
    cell: ({ tenant }) => (
      <GoTo path="/jobs" search={{ tenant, state }} className="name" title={tenant}>
        <PlainText>{tenant}</PlainText>
      </GoTo>
    ),
  };
}
