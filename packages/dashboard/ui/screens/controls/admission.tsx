import { useState } from "react";
import type { ControlsResponse } from "../../api.ts";
import { Bar } from "../../components/bar.tsx";
import { Button } from "../../components/button.tsx";
import { GoTo } from "../../components/link.tsx";
import { Section } from "../../components/page.tsx";
import { Rows, type Column } from "../../components/rows.tsx";
import { StandingMark } from "../../components/standing-mark.tsx";
import { duration, number, roundDuration } from "../../format.ts";
import { useRights } from "../../queries.ts";
import { AdmissionDialog } from "./admission-dialog.tsx";
import { viewOnly } from "./rights.ts";

type Admission = ControlsResponse["admission"][number];

const policyWords = {
  reject: "reject enqueues",
  defer: "defer new jobs",
  shed: "shed waiting jobs",
  warn: "count only",
} as const;

/** Queues with admission settings, and how full they are. */
export function AdmissionRows({ controls }: { readonly controls: ControlsResponse | undefined }) {
  const rights = useRights();
  const [changing, setChanging] = useState<{ setFor?: string }>();
  const columns: readonly Column<Admission>[] = [
    {
      title: "Queue",
      head: true,
      sort: ({ queue }) => queue,
      cell: ({ queue, setFor }) => (
        <>
          <GoTo path="/queues/$queue" params={{ queue }} className="name" title={queue}>
            {queue}
          </GoTo>
          {setFor === queue ? null : <span className="second">set for {setFor}</span>}
        </>
      ),
    },
    {
      title: "Status",
      sort: ({ full }) => Number(full),
      cell: ({ full }) => <StandingMark standing={full ? "late" : "ok"} word={full ? "full" : "admits"} />,
    },
    {
      title: "Depth",
      sort: ({ depth }) => depth,
      cell: ({ depth, maxDepth }) => (
        <span className="in-use">
          {maxDepth === undefined ? (
            <span />
          ) : (
            <Bar
              value={depth}
              limit={maxDepth}
              tone={depth >= maxDepth ? "late" : depth >= 0.8 * maxDepth ? "soon" : "plain"}
              label={`${depth} of ${maxDepth} jobs`}
            />
          )}
          <span>{maxDepth === undefined ? number(depth) : `${number(depth)} of ${number(maxDepth)}`}</span>
        </span>
      ),
    },
    {
      title: "Oldest ready",
      number: true,
      sort: ({ ageMs }) => ageMs,
      cell: ({ ageMs, maxAgeMs }) => (
        <>
          {duration(ageMs)}
          {maxAgeMs === undefined ? null : <span className="second">at most {roundDuration(maxAgeMs)}</span>}
        </>
      ),
    },
    {
      title: "When full",
      sort: ({ policy }) => policy,
      cell: ({ policy, strict }) => (
        <>
          {policyWords[policy]}
          <span className="second">{strict === true ? "strict" : "sampled every second"}</span>
        </>
      ),
    },
    {
      title: "Per tenant",
      number: true,
      leaves: "next",
      sort: ({ tenantMaxDepth }) => tenantMaxDepth ?? null,
      cell: ({ tenantMaxDepth }) =>
        tenantMaxDepth === undefined ? <span className="muted">–</span> : number(tenantMaxDepth),
    },
    { title: "Set by", leaves: "first", sort: ({ source }) => source, cell: ({ source }) => source },
    {
      title: "Action",
      number: true,
      cell: (admission) => (
        <Button
          small
          because={viewOnly(rights)}
          aria-label={`Change admission of ${admission.setFor}`}
          onClick={() => setChanging(admission)}
        >
          Change
        </Button>
      ),
    },
  ];
  const admission = controls?.admission;
  return (
    <Section
      title="Admission"
      aside={
        <Button small because={viewOnly(rights)} onClick={() => setChanging({})}>
          Set admission …
        </Button>
      }
    >
      {admission?.length === 0 ? (
        <p className="card card-padded muted">Every queue takes any number of jobs.</p>
      ) : (
        <Rows label="Admission" columns={columns} items={admission} id={({ queue }) => queue} />
      )}
      {changing === undefined ? null : (
        <AdmissionDialog
          setFor={changing.setFor}
          setting={controls?.settings.find(({ queue }) => queue === changing.setFor)}
          onClose={() => setChanging(undefined)}
        />
      )}
    </Section>
  );
}
