import { useState } from "react";
import type { ControlsResponse } from "../../api.ts";
import { Age } from "../../components/age.tsx";
import { Button } from "../../components/button.tsx";
import { Section } from "../../components/page.tsx";
import { ResumeDialog } from "../../components/pause-dialog.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { Rows, type Column } from "../../components/rows.tsx";
import { number } from "../../format.ts";
import { useRights } from "../../queries.ts";
import { viewOnly } from "./rights.ts";

type Pause = ControlsResponse["pauses"][number];

export function Pauses({ pauses }: { readonly pauses: readonly Pause[] | undefined }) {
  const rights = useRights();
  const [resuming, setResuming] = useState<Pause>();
  const columns: readonly Column<Pause>[] = [
    {
      title: "Paused",
      head: true,
      sort: ({ scope, name }) => `${scope} ${name}`,
      cell: ({ scope, name }) => (
        <>
          <span className="muted">{scope}</span> <PlainText whole>{name}</PlainText>
        </>
      ),
    },
    {
      title: "Since",
      sort: ({ pausedAt }) => Date.parse(pausedAt),
      cell: ({ pausedAt }) => <Age at={pausedAt} />,
    },
    {
      title: "Ends",
      sort: ({ until }) => (until === null ? null : Date.parse(until)),
      cell: ({ until }) =>
        until === null ? <span className="muted">when resumed</span> : <Age at={until} />,
    },
    {
      title: "By",
      leaves: "first",
      sort: ({ pausedBy }) => pausedBy,
      cell: ({ pausedBy }) => <PlainText whole>{pausedBy}</PlainText>,
    },
    { title: "Reason", wide: true, cell: ({ reason }) => <PlainText>{reason}</PlainText> },
    {
      title: "Parked jobs",
      number: true,
      leaves: "next",
      sort: ({ parkedJobs }) => parkedJobs,
      cell: ({ scope, parkedJobs }) =>
        // Jobs of paused queues, kinds and dependencies are not parked by the pause.
        scope === "tenant" || scope === "key" ? number(parkedJobs) : <span className="muted">–</span>,
    },
    {
      title: "Action",
      number: true,
      cell: (pause) => (
        <Button
          small
          because={viewOnly(rights)}
          aria-label={`Resume ${pause.scope} ${pause.name}`}
          onClick={() => setResuming(pause)}
        >
          Resume
        </Button>
      ),
    },
  ];
  return (
    <Section
      title="Pauses"
      aside={pauses?.length === 0 ? undefined : "Running jobs finish; enqueueing continues"}
    >
      {pauses?.length === 0 ? (
        <p className="card card-padded muted">Nothing is paused.</p>
      ) : (
        <Rows label="Pauses" columns={columns} items={pauses} id={({ scope, name }) => `${scope} ${name}`} />
      )}
      {resuming === undefined ? null : (
        <ResumeDialog target={resuming} onClose={() => setResuming(undefined)} />
      )}
    </Section>
  );
}
