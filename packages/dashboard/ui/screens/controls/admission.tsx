import { useState } from "react";
import type { ControlsResponse } from "../../api.ts";
import { Button } from "../../components/button.tsx";
import { GoTo } from "../../components/link.tsx";
import { Meter } from "../../components/meter.tsx";
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

function depthTone(depth: number, maxDepth: number): "late" | "soon" | "plain" {
  if (depth >= maxDepth) return "late";
  return depth >= 0.8 * maxDepth ? "soon" : "plain";
}

function TenantLimit({ maxDepth, maxAgeMs, policy }: NonNullable<Admission["tenant"]>) {
  const limits = [
    maxDepth === undefined ? null : `${number(maxDepth)} ${maxDepth === 1 ? "job" : "jobs"}`,
    maxAgeMs === undefined ? null : `up to ${roundDuration(maxAgeMs)} old`,
  ];
  return (
    <>
      {limits.filter((limit) => limit !== null).join(", ")}
      <div className="second">{policyWords[policy]}</div>
    </>
  );
}

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
          {setFor === queue ? null : <div className="second">set for {setFor}</div>}
        </>
      ),
    },
    {
      title: "Status",
      sort: ({ full }) => Number(full),
      cell: ({ full, behind }) => (
        <>
          <StandingMark standing={full ? "late" : "ok"} word={full ? "full" : "admits"} />
          {behind === null ? null : (
            <div className="second">
              {behind.dependency} {duration(behind.delayMs)} behind, at most{" "}
              {roundDuration(behind.maxDelayMs)}
            </div>
          )}
        </>
      ),
    },
    {
      title: "Depth",
      sort: ({ depth }) => depth,
      cell: ({ depth, maxDepth }) => (
        <Meter
          value={depth}
          limit={maxDepth ?? null}
          tone={depthTone(depth, maxDepth ?? Infinity)}
          label={`${depth} of ${maxDepth} jobs`}
        >
          {maxDepth === undefined ? number(depth) : `${number(depth)} of ${number(maxDepth)}`}
        </Meter>
      ),
    },
    {
      title: "Oldest ready",
      number: true,
      sort: ({ ageMs }) => ageMs,
      cell: ({ ageMs, maxAgeMs }) => (
        <>
          {duration(ageMs)}
          {maxAgeMs === undefined ? null : <div className="second">at most {roundDuration(maxAgeMs)}</div>}
        </>
      ),
    },
    {
      title: "When full",
      sort: ({ policy }) => policy,
      cell: ({ policy, strict }) => (
        <>
          {policyWords[policy]}
          <div className="second">{strict === true ? "strict" : "sampled every second"}</div>
        </>
      ),
    },
    {
      title: "Per tenant",
      number: true,
      leaves: "next",
      sort: ({ tenant }) => tenant?.maxDepth ?? null,
      cell: ({ tenant }) =>
        tenant === undefined ? <span className="muted">–</span> : <TenantLimit {...tenant} />,
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
