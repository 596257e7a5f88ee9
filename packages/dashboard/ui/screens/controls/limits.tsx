import { useState } from "react";
import type { ControlsResponse } from "../../api.ts";
import { Age } from "../../components/age.tsx";
import { Button } from "../../components/button.tsx";
import { PlacesInUse } from "../../components/meter.tsx";
import { Section } from "../../components/page.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { Rows, type Column } from "../../components/rows.tsx";
import { number, plural } from "../../format.ts";
import { useRights } from "../../queries.ts";
import { Keys, type Key } from "./keys.tsx";
import { LimitDialog } from "./limit-dialogs.tsx";
import { viewOnly } from "./rights.ts";

type Limit = ControlsResponse["limits"][number];

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
        return <PlacesInUse held={own?.held ?? 0} max={limit.max} />;
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
      cell: ({ name, declaredMax }) =>
        declaredMax === null ? (
          <span className="muted">{name.startsWith("dependency:") ? "by its dependency" : "live only"}</span>
        ) : (
          number(declaredMax)
        ),
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
      {controls === undefined || controls.keys.length === 0 ? null : (
        <Keys
          keys={controls.keys}
          more={controls.moreKeys === true || controls.keysCapped === true}
          capped={controls.keysCapped === true}
        />
      )}
      {changing === undefined ? null : (
        <LimitDialog limit={changing} onClose={() => setChanging(undefined)} />
      )}
    </Section>
  );
}
