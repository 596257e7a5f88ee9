import type { Stats, WaitingTenants } from "stint/inspect";
import type { Wire } from "../../api.ts";
import { Bar } from "../../components/bar.tsx";
import { GoTo } from "../../components/link.tsx";
import { Failed, Section } from "../../components/page.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { Rows, type Column } from "../../components/rows.tsx";
import { duration, number } from "../../format.ts";
import { useStats, useTenants } from "../../queries.ts";
import { deadColumn, readyColumn, runningColumn } from "./depth-columns.tsx";
import { queueColumn } from "./queue-column.tsx";
import "./shares.css";

/** Load by tenant and by priority: one tenant can fill a queue for all others. */
export function Shares() {
  const stats = useStats();
  const waiting = useTenants();
  // Shown together once both have loaded, so that the layout does not shift. A failure of one does not hide the other.
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
        Hidden from your role: a tenant's name may repeat a redacted value. Ask for the right to see payloads.
      </p>
    </Section>
  );
}

function NoTenants() {
  return (
    <Section title="Tenants">
      <p className="card card-padded muted">
        Set a tenant when you enqueue, as in <code>{'{ tenant: "acme" }'}</code>, to see waiting and busiest
        tenants here.
      </p>
    </Section>
  );
}

type Priority = Wire<Stats>["byPriority"][number];

/** Limits the rows: an installation can have as many priorities as jobs. */
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

/** Hidden if a queue has only one priority. */
function severalPriorities(all: readonly Priority[]): readonly Priority[] {
  const ofQueue = new Map<string, number>();
  for (const { queue } of all) ofQueue.set(queue, (ofQueue.get(queue) ?? 0) + 1);
  return all.filter(({ queue }) => (ofQueue.get(queue) ?? 0) > 1);
}

const priorityColumns: readonly Column<Priority>[] = [
  queueColumn,
  { title: "Priority", number: true, sort: ({ priority }) => priority, cell: ({ priority }) => priority },
  readyColumn,
  runningColumn,
  {
    title: "Waiting",
    number: true,
    sort: ({ depth }) => depth.scheduled + depth.retrying + depth.parked,
    leaves: "next",
    cell: ({ depth }) => number(depth.scheduled + depth.retrying + depth.parked),
  },
  deadColumn,
];

function Waiting({ waiting: { tenants, of } }: { readonly waiting: WaitingTenants }) {
  return (
    <Section
      title="Waiting tenants"
      aside={of.capped ? `among the next ${number(of.count)} ready` : "among the ready jobs"}
    >
      {tenants.length === 0 ? (
        <p className="card card-padded muted">
          {of.count === 0 ? "No job is waiting." : "None of the ready jobs has a tenant."}
        </p>
      ) : (
        <Rows
          few
          label="Waiting tenants"
          columns={[
            tenantColumn("ready"),
            { title: "Ready", number: true, sort: ({ ready }) => ready, cell: ({ ready }) => number(ready) },
            {
              title: "Share",
              sort: ({ ready }) => -ready,
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
    <Section title="Busiest tenants" aside="in the last hour">
      {tenants.length === 0 ? (
        <p className="card card-padded muted">No attempt of a job with a tenant ended in the last hour.</p>
      ) : (
        <Rows
          few
          label="Busiest tenants"
          columns={[
            tenantColumn(),
            {
              title: "Attempts ended",
              number: true,
              sort: ({ ended }) => ended,
              cell: ({ ended }) => number(ended),
            },
            {
              title: "Run time",
              number: true,
              sort: ({ runMs }) => runMs,
              cell: ({ runMs }) => duration(runMs),
            },
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
    sort: ({ tenant }) => tenant,
    cell: ({ tenant }) => (
      <GoTo path="/jobs" search={{ tenant, state }} className="name" title={tenant}>
        <PlainText>{tenant}</PlainText>
      </GoTo>
    ),
  };
}
