import { useState } from "react";
import type { ControlsResponse } from "../../api.ts";
import { Age } from "../../components/age.tsx";
import { Button } from "../../components/button.tsx";
import { GoTo } from "../../components/link.tsx";
import { PlacesInUse } from "../../components/meter.tsx";
import { Failed } from "../../components/page.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { Rows, type Column } from "../../components/rows.tsx";
import { number } from "../../format.ts";
import { useLimitKeys, useRights } from "../../queries.ts";
import { LimitDialog, PassDialog } from "./limit-dialogs.tsx";
import { viewOnly } from "./rights.ts";

export type Key = ControlsResponse["keys"][number];

/** Keys that jobs hold or wait for. `more`: there are others, which the server searches. */
export function Keys({
  keys,
  more,
  capped,
}: {
  readonly keys: readonly Key[];
  readonly more: boolean;
  /** The server counted only the first places. */
  readonly capped: boolean;
}) {
  const rights = useRights();
  const [changing, setChanging] = useState<Key>();
  const [passing, setPassing] = useState<string>();
  const [wanted, setWanted] = useState("");
  const found = useLimitKeys(more ? wanted : "");
  const shown = more && wanted !== "" ? (found.data?.keys ?? keys) : keys;
  const columns: readonly Column<Key>[] = [
    {
      title: "Key",
      head: true,
      sort: ({ key }) => key,
      cell: ({ key }) => <PlainText whole>{key}</PlainText>,
    },
    {
      title: "In use",
      sort: ({ held }) => held,
      cell: ({ held, max }) => <PlacesInUse held={held} max={max} />,
    },
    {
      title: "Waiting",
      number: true,
      sort: ({ waiting }) => waiting,
      cell: ({ waiting }) => number(waiting),
    },
    {
      title: "Waiting since",
      leaves: "next",
      sort: ({ waitingSince }) => (waitingSince === null ? null : Date.parse(waitingSince)),
      cell: ({ waitingSince }) =>
        waitingSince === null ? <span className="muted">–</span> : <Age at={waitingSince} />,
    },
    {
      title: "Turn",
      leaves: "first",
      cell: ({ holder }) =>
        holder === null ? (
          <span className="muted">–</span>
        ) : (
          <GoTo path="/jobs/$id" params={{ id: holder }} className="mono" title={holder}>
            {holder.slice(-12)}
          </GoTo>
        ),
    },
    {
      title: "Action",
      number: true,
      cell: (key) =>
        isOrdered(key) ? (
          <Button
            small
            because={
              viewOnly(rights) ??
              (key.key.startsWith("pass:") ? "A failed job does not block this key." : null)
            }
            aria-label={`Pass ${key.key}`}
            onClick={() => setPassing(key.key)}
          >
            Pass
          </Button>
        ) : (
          <Button
            small
            because={viewOnly(rights)}
            aria-label={`Change ${key.key}`}
            onClick={() => setChanging(key)}
          >
            Change
          </Button>
        ),
    },
  ];
  return (
    <>
      <Rows
        label="Keys in use"
        columns={columns}
        items={shown}
        id={({ key }) => key}
        filter={{ label: "Filter keys", text: ({ key }) => key, onChange: setWanted }}
      />
      {found.error === null ? null : <Failed error={found.error} again={() => void found.refetch()} />}
      {more ? (
        <p className="muted">
          The {number(keys.length)} keys with the most waiting jobs. There are more: filter to find them.
          {capped ? " Counted from the first 50,000 places, so there are more jobs than shown." : ""}
        </p>
      ) : null}
      {changing === undefined ? null : (
        <LimitDialog
          limit={{ name: changing.key, ...(changing.max === null ? {} : { max: changing.max }) }}
          onClose={() => setChanging(undefined)}
        />
      )}
      {passing === undefined ? null : <PassDialog orderKey={passing} onClose={() => setPassing(undefined)} />}
    </>
  );
}

/** Jobs of an ordered key run one at a time, in the order of their enqueue. */
function isOrdered({ key }: Key): boolean {
  return key.startsWith("order:") || key.startsWith("pass:");
}
