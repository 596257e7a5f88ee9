import type { QueueTenants, WaitingTenant } from "stint/inspect";
import { Bar } from "../../components/bar.tsx";
import { GoTo } from "../../components/link.tsx";
import { Section } from "../../components/page.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { Rows, type Column } from "../../components/rows.tsx";
import { duration, number } from "../../format.ts";
import { useQueueTenants } from "../../queries.ts";

type Tenant = QueueTenants["tenants"][number];

/** Whose jobs wait in this queue: exactly for a fair queue, else among its next jobs. Nothing for a queue without tenants. */
export function Tenants({ queue }: { readonly queue: string }) {
  const { data } = useQueueTenants(queue);
  if (data === undefined || data.hidden === true) return null;
  const { tenants, of, exact = null } = data;
  if (exact !== null && exact.length > 0) return <FairTenants queue={queue} tenants={exact} />;
  if (tenants.length === 0) return null;
  return (
    <Section
      title="Waiting tenants"
      aside={
        of.capped
          ? `Sampled: among the next ${number(of.count)} ready jobs`
          : `All ${number(of.count)} ready jobs`
      }
    >
      <Rows<WaitingTenant>
        few
        label="Waiting tenants"
        items={tenants}
        id={({ tenant }) => tenant}
        open={({ tenant }) => ({ path: "/jobs", search: { queue, tenant, state: "ready" } })}
        columns={[
          {
            title: "Tenant",
            head: true,
            sort: ({ tenant }) => tenant,
            cell: ({ tenant }) => <TenantLink queue={queue} tenant={tenant} />,
          },
          {
            title: "Ready",
            number: true,
            sort: ({ ready }) => ready,
            cell: ({ ready }) => number(ready),
          },
          shareColumn(tenants),
        ]}
      />
    </Section>
  );
}

const mostTenants = 1_000;

/** Tenants take turns, so a large one does not hold up the others. */
function FairTenants({ queue, tenants }: { readonly queue: string; readonly tenants: readonly Tenant[] }) {
  const columns: readonly Column<Tenant>[] = [
    {
      title: "Tenant",
      head: true,
      sort: ({ tenant }) => tenant,
      cell: ({ tenant }) =>
        tenant === null ? (
          <span className="muted">without a tenant</span>
        ) : (
          <TenantLink queue={queue} tenant={tenant} />
        ),
    },
    { title: "Weight", number: true, sort: ({ weight }) => weight, cell: ({ weight }) => number(weight) },
    { title: "Ready", number: true, sort: ({ ready }) => ready, cell: ({ ready }) => number(ready) },
    {
      title: "Running",
      number: true,
      sort: ({ running }) => running,
      cell: ({ running }) => number(running),
    },
    {
      title: "Oldest ready",
      number: true,
      sort: ({ oldestReadyMs }) => oldestReadyMs,
      cell: ({ oldestReadyMs }) => duration(oldestReadyMs),
    },
    shareColumn(tenants),
  ];
  return (
    <Section
      title="Tenants"
      aside={
        tenants.length < mostTenants
          ? "Fair: they take turns by weight. Exact counts"
          : `Fair: they take turns by weight. The ${number(mostTenants)} with the most ready jobs`
      }
    >
      <Rows<Tenant>
        label="Tenants"
        columns={columns}
        items={tenants}
        id={({ tenant }) => (tenant === null ? "none" : `tenant ${tenant}`)}
        filter={byName}
      />
    </Section>
  );
}

const byName = { label: "Filter tenants", text: ({ tenant }: Tenant) => tenant ?? "without a tenant" };

function TenantLink({ queue, tenant }: { readonly queue: string; readonly tenant: string }) {
  return (
    <GoTo path="/jobs" search={{ queue, tenant, state: "ready" }}>
      <PlainText whole>{tenant}</PlainText>
    </GoTo>
  );
}

function shareColumn<Item extends { readonly ready: number }>(tenants: readonly Item[]): Column<Item> {
  const most = Math.max(0, ...tenants.map(({ ready }) => ready));
  return {
    title: "Share",
    cell: ({ ready }) => <Bar value={ready} limit={most} label={`${ready} of ${most}`} />,
  };
}
