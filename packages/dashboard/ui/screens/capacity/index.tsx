import { EmptyState } from "../../components/empty-state.tsx";
import { Failed, Page } from "../../components/page.tsx";
import { Rows } from "../../components/rows.tsx";
import { number, plural } from "../../format.ts";
import { useCapacity } from "../../queries.ts";
import type { CapacityResponse } from "../../api.ts";
import type { Screen } from "../../screen.ts";
import { columns, type Pool } from "./columns.tsx";
import "./capacity.css";

export const screen: Screen = {
  path: "/capacity",
  title: "Capacity",
  icon: "M2 11.500a6 6 0 0 1 12 0M8 11.500 11 6.500M2 14h12",
  key: "p",
  component: Capacity,
};

const byName = { label: "Filter pools", text: ({ pool }: Pool) => pool };

function Capacity() {
  const { data, error, refetch } = useCapacity();
  return (
    <Page title="Capacity" note={data === undefined ? " " : noteOf(data)}>
      {error === null ? null : <Failed error={error} again={() => void refetch()} />}
      {error !== null && data === undefined ? null : data?.pools.length === 0 ? (
        <EmptyState title="No queue needs workers">
          A queue appears here when a worker serves it, or when its jobs wait for one.
        </EmptyState>
      ) : (
        <Rows label="Pools" columns={columns} items={data?.pools} id={({ pool }) => pool} filter={byName} />
      )}
      <p className="muted capacity-note">
        From the arrivals and run times of the last ten minutes, the ready jobs and the target age of each
        queue. Workers are removed only if the others stay at most 80 % busy.{" "}
        <code>stint scale recommend</code>, <code>GET /api/capacity</code> and <code>/metrics</code> have the
        same figures for autoscalers.
      </p>
    </Page>
  );
}

function noteOf({ workers, recommended, database }: CapacityResponse): string {
  const { connections, maxConnections, lockWaits } = database;
  const waits = lockWaits === 0 ? "" : `, ${plural(lockWaits, "session")} waiting for locks`;
  return (
    `${plural(workers, "worker")}, ${number(recommended)} recommended. ` +
    `Database: ${number(connections)} of ${plural(maxConnections, "connection")}${waits}.`
  );
}
