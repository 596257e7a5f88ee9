import { useState } from "react";
import type { ControlsResponse } from "../../api.ts";
import { Age } from "../../components/age.tsx";
import { Bar } from "../../components/bar.tsx";
import { Button } from "../../components/button.tsx";
import { GoTo } from "../../components/link.tsx";
import { Section } from "../../components/page.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { Rows, type Column } from "../../components/rows.tsx";
import { number, plural } from "../../format.ts";
import { useRights } from "../../queries.ts";
import { LimitDialog, PassDialog } from "./limit-dialogs.tsx";
import { viewOnly } from "./rights.ts";

type Limit = ControlsResponse["limits"][number];
type Key = ControlsResponse["keys"][number];

/** A limit without keys counts under its own name; the others count each key by itself. */
function usesOf(keys: readonly Key[]): (limit: Limit) => { own: Key | undefined; keys: number } {
  const byName = new Map(keys.map((key) => [key.key, key]));
  const counts = new Map<string, number>();
  for (const { key } of keys) {
    const rule = key.slice(0, Math.max(0, key.indexOf("=")));
    if (rule !== "") counts.set(rule, (counts.get(rule) ?? 0) + 1);
  }
  return ({ name }) => ({ own: byName.get(name), keys: counts.get(name) ?? 0 });
}

function InUse({ held, max }: { readonly held: number; readonly max: number | null }) {
  return (
    <span className="in-use">
      <Bar
        value={held}
        limit={max ?? held}
        tone={max !== null && held >= max ? "soon" : "plain"}
        label={`${held} of ${max ?? "any number"} in use`}
      />
      <span>
        {number(held)} of {max === null ? "∞" : number(max)}
      </span>
    </span>
  );
}

export function Limits({ controls }: { readonly controls: ControlsResponse | undefined }) {
  const rights = useRights();
  const [changing, setChanging] = useState<{ name?: string; max?: number; declaredMax?: number | null }>();
  const uses = usesOf(controls?.keys ?? []);
  const columns: readonly Column<Limit>[] = [
    {
      title: "Limit",
      head: true,
      sort: ({ name }) => name,
      cell: ({ name }) => <PlainText whole>{name}</PlainText>,
    },
    {
      title: "In use",
      cell: (limit) => {
        const { own, keys } = uses(limit);
        if (own === undefined && keys > 0) return <span className="muted">{plural(keys, "key")} in use</span>;
        return <InUse held={own?.held ?? 0} max={limit.max} />;
      },
    },
    {
      title: "Waiting",
      number: true,
      sort: (limit) => uses(limit).own?.waiting ?? 0,
      cell: (limit) => number(uses(limit).own?.waiting ?? 0),
    },
    { title: "Max", number: true, sort: ({ max }) => max, cell: ({ max }) => number(max) },
    {
      title: "Declared",
      number: true,
      leaves: "next",
      sort: ({ declaredMax }) => declaredMax,
      cell: ({ declaredMax }) =>
        declaredMax === null ? <span className="muted">live only</span> : number(declaredMax),
    },
    {
      title: "Changed",
      leaves: "first",
      sort: ({ updatedAt }) => Date.parse(updatedAt),
      cell: ({ updatedAt, updatedBy }) => (
        <>
          <Age at={updatedAt} /> <span className="muted">by</span> <PlainText whole>{updatedBy}</PlainText>
        </>
      ),
    },
    {
      title: "Action",
      number: true,
      cell: (limit) => (
        <Button
          small
          because={viewOnly(rights)}
          aria-label={`Change ${limit.name}`}
          onClick={() => setChanging(limit)}
        >
          Change
        </Button>
      ),
    },
  ];
  const limits = controls?.limits;
  return (
    <Section
      title="Limits"
      aside={
        <Button small because={viewOnly(rights)} onClick={() => setChanging({})}>
          Set a limit …
        </Button>
      }
    >
      {limits?.length === 0 ? (
        <p className="card card-padded muted">
          No limit is in force: as many jobs run at once as there are slots.
        </p>
      ) : (
        <Rows label="Limits" columns={columns} items={limits} id={({ name }) => name} />
      )}
      {controls === undefined || controls.keys.length === 0 ? null : <Keys keys={controls.keys} />}
      {changing === undefined ? null : (
        <LimitDialog limit={changing} onClose={() => setChanging(undefined)} />
      )}
    </Section>
  );
}

/** Keys that jobs hold or wait for. */
function Keys({ keys }: { readonly keys: readonly Key[] }) {
  const rights = useRights();
  const [changing, setChanging] = useState<Key>();
  const [passing, setPassing] = useState<string>();
  const columns: readonly Column<Key>[] = [
    {
      title: "Key",
      head: true,
      sort: ({ key }) => key,
      cell: ({ key }) => <PlainText whole>{key}</PlainText>,
    },
    { title: "In use", sort: ({ held }) => held, cell: ({ held, max }) => <InUse held={held} max={max} /> },
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
      <Rows label="Keys in use" columns={columns} items={keys} id={({ key }) => key} filter={byKey} />
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

const byKey = { label: "Filter keys", text: ({ key }: Key) => key };

/** Jobs of an ordered key run one at a time, in the order of their enqueue. */
function isOrdered({ key }: Key): boolean {
  return key.startsWith("order:") || key.startsWith("pass:");
}
