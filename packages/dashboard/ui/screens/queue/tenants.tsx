import type { WaitingTenant } from "stint/inspect";
import { Bar } from "../../components/bar.tsx";
import { GoTo } from "../../components/link.tsx";
import { Section } from "../../components/page.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { Rows } from "../../components/rows.tsx";
import { number } from "../../format.ts";
import { useQueueTenants } from "../../queries.ts";

/** Whose jobs wait in this queue. Nothing for a queue without tenants. */
export function Tenants({ queue }: { readonly queue: string }) {
  const { data } = useQueueTenants(queue);
  if (data === undefined || data.hidden === true || data.tenants.length === 0) return null;
  const { tenants, of } = data;
  const most = tenants[0]?.ready ?? 0;
  return (
    <Section
      title="Waiting tenants"
      aside={
        of.capped ? `Among the next ${number(of.count)} ready jobs` : `All ${number(of.count)} ready jobs`
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
            cell: ({ tenant }) => (
              <GoTo path="/jobs" search={{ queue, tenant, state: "ready" }}>
                <PlainText whole>{tenant}</PlainText>
              </GoTo>
            ),
          },
          {
            title: "Ready",
            number: true,
            sort: ({ ready }) => ready,
            cell: ({ ready }) => number(ready),
          },
          {
            title: "Share",
            cell: ({ ready }) => <Bar value={ready} limit={most} label={`${ready} of ${most}`} />,
          },
        ]}
      />
    </Section>
  );
}
