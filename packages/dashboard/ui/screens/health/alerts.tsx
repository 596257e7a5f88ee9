import type { Health } from "stint/inspect";
import type { Wire } from "../../api.ts";
import { GoTo } from "../../components/link.tsx";
import { Banner } from "../../components/page.tsx";
import { duration, number, plural } from "../../format.ts";
import { useWorkers } from "../../queries.ts";

const most = 5;

/** Problems that the table does not show: no worker runs, or none serves a kind. */
export function Alerts({ health: { workers, unserved, total } }: { readonly health: Wire<Health> }) {
  const waiting = total.ready + total.retrying + total.scheduled;
  const kinds = new Set(unserved.map(({ kind }) => kind)).size;
  return (
    <>
      {workers === 0 && waiting > 0 && (
        <Banner tone="late" title="No worker is running.">
          {plural(waiting, "job")} will wait until one starts: <code>npx stint worker</code>, or{" "}
          <code>worker.start()</code> in your own process.
        </Banner>
      )}
      {workers > 0 && unserved.length > 0 && (
        <Banner
          tone="late"
          title={
            kinds === 1
              ? "Jobs of one kind are ready, and no worker serves it."
              : `Jobs of ${kinds} kinds are ready, and no worker serves them.`
          }
        >
          <ul className="unserved">
            {unserved.slice(0, most).map(({ kind, queue, oldestReadyMs }) => (
              <li key={`${queue} ${kind}`}>
                <GoTo path="/jobs" search={{ kind, queue, state: "ready" }}>
                  {kind}
                </GoTo>{" "}
                in {queue}, the oldest for {duration(oldestReadyMs)}
              </li>
            ))}
            {unserved.length > most && (
              <li>
                <GoTo path="/workers">and {number(unserved.length - most)} more</GoTo>
              </li>
            )}
          </ul>
          <p>Start a worker with the queue in its pools and a handler for the kind.</p>
        </Banner>
      )}
      <UnresponsiveWorkers />
    </>
  );
}

/** A killed or frozen worker counts among the workers for two minutes; this alert appears after one. */
function UnresponsiveWorkers() {
  const unresponsive = (useWorkers().data ?? []).filter(({ unresponsive }) => unresponsive);
  if (unresponsive.length === 0) return null;
  return (
    <Banner
      tone="late"
      title={
        unresponsive.length === 1
          ? "A worker stopped responding: killed, frozen or disconnected."
          : `${number(unresponsive.length)} workers stopped responding: killed, frozen or disconnected.`
      }
    >
      <ul className="unserved">
        {unresponsive.slice(0, most).map(({ id, host, pid, heartbeatAgeMs, slots }) => (
          <li key={id}>
            <GoTo path="/workers">{id}</GoTo> on {host}, pid {pid}, for {duration(heartbeatAgeMs)}:{" "}
            {plural(slots, "slot")} missing
          </li>
        ))}
        {unresponsive.length > most && (
          <li>
            <GoTo path="/workers">and {number(unresponsive.length - most)} more</GoTo>
          </li>
        )}
      </ul>
      <p>Other workers run its jobs once their leases expire. No attempt is spent.</p>
    </Banner>
  );
}
