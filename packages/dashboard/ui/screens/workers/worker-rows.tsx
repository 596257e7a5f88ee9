import type { WorkerView } from "stint/inspect";
import { Fragment } from "react";
import type { Wire } from "../../api.ts";
import { Bar } from "../../components/bar.tsx";
import { Rows, type Column } from "../../components/rows.tsx";
import { bytes, duration, number } from "../../format.ts";
import { WorkerName } from "./worker-name.tsx";

type Worker = Wire<WorkerView>;

/** An event loop this late delays everything the worker does. */
const lagging = 200;
const mostKinds = 3;
const mostPools = 12;

const columns: readonly Column<Worker>[] = [
  {
    title: "Worker",
    head: true,
    sort: ({ id }) => id,
    cell: ({ id, host, pid }) => (
      <WorkerName id={id} host={host}>
        , pid {pid}
      </WorkerName>
    ),
  },
  {
    title: "Status",
    sort: (worker) => conditionOf(worker).word,
    cell: (worker) => <Condition worker={worker} />,
  },
  {
    title: "Slots",
    wide: true,
    sort: ({ busy }) => busy,
    cell: ({ busy, slots, waiting }) => (
      <div className="worker-slots tabular">
        <span>
          {number(busy)} <span className="muted">of {number(slots)} busy</span>
          {waiting > 0 && <span className="muted"> · {number(waiting)} waiting</span>}
        </span>
        <Bar value={busy} limit={slots} label={`${number(busy)} of ${number(slots)} slots busy`} />
      </div>
    ),
  },
  {
    title: "Pools",
    wide: true,
    sort: ({ pools }) => Object.keys(pools).join(" "),
    cell: ({ pools }) => {
      const all = Object.entries(pools);
      return (
        <div className="worker-pools tabular">
          {all.slice(0, mostPools).map(([queue, slots]) => (
            <span key={queue}>
              <span className="name" title={queue}>
                {queue}
              </span>{" "}
              <span className="muted">{number(slots)}</span>
            </span>
          ))}
          {all.length > mostPools && <span className="muted">and {number(all.length - mostPools)} more</span>}
        </div>
      );
    },
  },
  {
    title: "Kinds",
    wide: true,
    sort: ({ kinds }) => kinds.join(" "),
    leaves: "next",
    cell: ({ kinds }) => (
      <span className="worker-kinds" title={kinds.join(", ")}>
        {kinds.slice(0, mostKinds).map((kind, index) => (
          <Fragment key={kind}>
            <span className="name">
              {kind}
              {index < kinds.length - 1 && ","}
            </span>{" "}
          </Fragment>
        ))}
        {kinds.length > mostKinds && (
          <span className="muted"> and {number(kinds.length - mostKinds)} more</span>
        )}
      </span>
    ),
  },
  {
    title: "Loop lag",
    number: true,
    sort: ({ lagMs }) => lagMs,
    cell: ({ lagMs }) => <span className={(lagMs ?? 0) >= lagging ? "warn" : ""}>{duration(lagMs)}</span>,
  },
  {
    title: "Memory",
    number: true,
    leaves: "first",
    sort: ({ rssBytes }) => rssBytes,
    cell: ({ rssBytes }) => bytes(rssBytes),
  },
  {
    title: "Version",
    sort: ({ version }) => version,
    cell: ({ version, behind }) => (
      <>
        {version}
        {behind && <div className="second warn">behind</div>}
      </>
    ),
  },
  {
    title: "Up for",
    number: true,
    sort: ({ startedAt }) => -Date.parse(startedAt),
    leaves: "first",
    cell: ({ startedAt }) => duration(Date.now() - Date.parse(startedAt)),
  },
];

export function WorkerRows({ workers }: { readonly workers: readonly Worker[] | undefined }) {
  return <Rows label="Workers" columns={columns} items={workers} id={({ id }) => id} />;
}

function Condition({ worker }: { readonly worker: Worker }) {
  const { word, tone, detail } = conditionOf(worker);
  return (
    <>
      <span className={tone}>{word}</span>
      {detail !== "" && <div className="second">{detail}</div>}
    </>
  );
}

function conditionOf(worker: Worker) {
  const { draining, asleep, listening, heartbeatAgeMs, busy } = worker;
  if (worker.unresponsive) {
    return { word: "not responding", tone: "bad", detail: `for ${duration(heartbeatAgeMs)}` };
  }
  if (draining)
    return {
      word: "draining",
      tone: "warn",
      detail: busy === 0 ? "nothing left to run" : `${number(busy)} still running`,
    };
  if (asleep) return { word: "asleep", tone: "muted", detail: "until the next wake" };
  return {
    word: busy > 0 ? "working" : "idle",
    tone: "",
    detail: listening ? "" : "polling (no notifications)",
  };
}
