import { useState } from "react";
import type { ControlsResponse } from "../../api.ts";
import { Age, useNow } from "../../components/age.tsx";
import { Button } from "../../components/button.tsx";
import { GoTo } from "../../components/link.tsx";
import { Meter, PlacesInUse } from "../../components/meter.tsx";
import { Section } from "../../components/page.tsx";
import { PauseDialog, ResumeDialog } from "../../components/pause-dialog.tsx";
import { Rows, type Column } from "../../components/rows.tsx";
import { StandingMark } from "../../components/standing-mark.tsx";
import { number, plural, roundDuration } from "../../format.ts";
import { useRights } from "../../queries.ts";
import { DependencyDialog } from "./dependency-dialog.tsx";
import { viewOnly } from "./rights.ts";

export type Dependency = NonNullable<ControlsResponse["dependencies"]>[number];

const columns: readonly Column<Dependency>[] = [
  {
    title: "Dependency",
    head: true,
    sort: ({ name }) => name,
    cell: ({ name, kinds }) => (
      <>
        <span className="name" title={name}>
          {name}
        </span>
        <Kinds kinds={kinds} />
      </>
    ),
  },
  {
    title: "Status",
    sort: (dependency) => statuses.indexOf(statusOf(dependency)),
    cell: (dependency) => <Status dependency={dependency} />,
  },
  {
    title: "Running",
    sort: ({ running }) => running,
    cell: (dependency) => <Running dependency={dependency} />,
  },
  {
    title: "Rate",
    sort: ({ tokens }) => tokens,
    cell: (dependency) => {
      const { rate } = dependency.settings;
      return rate === undefined ? (
        <span className="muted">–</span>
      ) : (
        <Tokens dependency={dependency} rate={rate} />
      );
    },
  },
  {
    title: "Quota",
    sort: ({ quotaLeft }) => quotaLeft,
    cell: (dependency) => <Quota dependency={dependency} />,
  },
  {
    title: "Waiting",
    number: true,
    sort: ({ waiting }) => waiting,
    cell: ({ waiting, nextAt }) => (
      <>
        {waiting < mostCounted ? number(waiting) : `${number(mostCounted)} or more`}
        {nextAt === null ? null : (
          <div className="second">
            next <Age at={nextAt} />
          </div>
        )}
      </>
    ),
  },
];

/** The server counts up to this many waiting jobs. */
const mostCounted = 10_000;

/** Outside systems, with what they allow and what is left of it. */
export function Dependencies({ dependencies }: { readonly dependencies: readonly Dependency[] | undefined }) {
  const rights = useRights();
  const [open, setOpen] = useState<{ action: "change" | "pause" | "resume"; dependency: Dependency }>();
  const close = (): void => setOpen(undefined);
  const actions: Column<Dependency> = {
    title: "Action",
    number: true,
    cell: (dependency) => {
      const { name, isPaused } = dependency;
      return (
        <span className="row-actions">
          <Button
            small
            because={viewOnly(rights)}
            aria-label={`Change dependency ${name}`}
            onClick={() => setOpen({ action: "change", dependency })}
          >
            Change
          </Button>
          <Button
            small
            because={viewOnly(rights)}
            aria-label={`${isPaused ? "Resume" : "Pause"} dependency ${name}`}
            onClick={() => setOpen({ action: isPaused ? "resume" : "pause", dependency })}
          >
            {isPaused ? "Resume" : "Pause"}
          </Button>
        </span>
      );
    },
  };
  const target = { scope: "dependency", name: open?.dependency.name ?? "" } as const;
  return (
    <Section
      title="Dependencies"
      aside={
        dependencies?.length === 0 ? undefined : "What outside systems allow, over all workers and kinds"
      }
    >
      {dependencies?.length === 0 ? (
        <p className="card card-padded muted">
          No dependency is declared. Code declares one by <code>defineDependency</code>, and kinds name it in{" "}
          <code>uses</code>.
        </p>
      ) : (
        <Rows
          label="Dependencies"
          columns={[...columns, actions]}
          items={dependencies}
          id={({ name }) => name}
          filter={byName}
        />
      )}
      {open?.action === "change" ? <DependencyDialog dependency={open.dependency} onClose={close} /> : null}
      {open?.action === "pause" ? <PauseDialog target={target} onClose={close} /> : null}
      {open?.action === "resume" ? <ResumeDialog target={target} onClose={close} /> : null}
    </Section>
  );
}

const byName = { label: "Filter dependencies", text: ({ name }: Dependency) => name };

const mostKinds = 3;

function Kinds({ kinds }: { readonly kinds: readonly string[] }) {
  if (kinds.length === 0) return <div className="second">used by no kind</div>;
  return (
    <div className="second" title={kinds.join(", ")}>
      {"used by "}
      {kinds.slice(0, mostKinds).map((kind, index) => (
        <span key={kind}>
          {index === 0 ? "" : ", "}
          <GoTo path="/jobs" search={{ kind }} className="name">
            {kind}
          </GoTo>
        </span>
      ))}
      {kinds.length > mostKinds ? ` and ${number(kinds.length - mostKinds)} more` : ""}
    </div>
  );
}

/** The most urgent first. */
const statuses = ["paused", "held back", "saturated", "ok"] as const;
const standings = { paused: "paused", "held back": "late", saturated: "soon", ok: "ok" } as const;

function statusOf({ isPaused, slowUntil, waiting }: Dependency): (typeof statuses)[number] {
  if (isPaused) return "paused";
  if (slowUntil !== null) return "held back";
  return waiting > 0 ? "saturated" : "ok";
}

function Status({ dependency }: { readonly dependency: Dependency }) {
  const status = statusOf(dependency);
  return (
    <>
      <StandingMark standing={standings[status]} word={status} />
      {dependency.slowUntil === null ? null : (
        <div className="second">
          rate limited, ends <Age at={dependency.slowUntil} />
        </div>
      )}
    </>
  );
}

function Running({ dependency }: { readonly dependency: Dependency }) {
  const { running, effectiveConcurrency, settings, declared } = dependency;
  const max = settings.concurrency?.max ?? null;
  const declaredMax = declared?.concurrency?.max ?? null;
  const detail = [
    ...(effectiveConcurrency === null || effectiveConcurrency === max
      ? []
      : [`lowered from ${number(max ?? 0)} after rate limits`]),
    ...(declared === null || declaredMax === max
      ? []
      : [declaredMax === null ? "declared without a limit" : `declared ${number(declaredMax)}`]),
  ];
  return (
    <>
      {effectiveConcurrency === null ? (
        <span className="muted">not limited</span>
      ) : (
        <PlacesInUse held={running} max={effectiveConcurrency} />
      )}
      {detail.length === 0 ? null : <div className="second">{detail.join(", ")}</div>}
    </>
  );
}

type Rate = NonNullable<Dependency["settings"]["rate"]>;

function Tokens({ dependency, rate }: { readonly dependency: Dependency; readonly rate: Rate }) {
  const { tokens, nextTokenAt } = dependency;
  const now = useNow();
  return (
    <>
      {number(tokens ?? 0)} of {plural(rate.burst, "token")}
      <div className="second">
        {number(rate.limit)} in {roundDuration(rate.perMs)}
        {nextTokenAt === null && ", full"}
        {nextTokenAt !== null && Date.parse(nextTokenAt) > now && (
          <>
            , next <Age at={nextTokenAt} />
          </>
        )}
      </div>
    </>
  );
}

function Quota({ dependency }: { readonly dependency: Dependency }) {
  const { quotaLeft, quotaResetsAt, settings } = dependency;
  const { quota } = settings;
  if (quota === undefined) return <span className="muted">–</span>;
  const left = Math.max(0, quotaLeft ?? 0);
  const used = quota.limit - left;
  return (
    <>
      <Meter
        value={used}
        limit={quota.limit}
        tone={left === 0 ? "late" : "plain"}
        label={`${used} of ${quota.limit} used`}
      >
        {number(used)} used
      </Meter>
      <div className="second">
        of {number(quota.limit)} a {quota.per}
        {quotaResetsAt === null ? null : (
          <>
            , resets <Age at={quotaResetsAt} />
          </>
        )}
      </div>
    </>
  );
}
