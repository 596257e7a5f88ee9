import { useState } from "react";
import { Button } from "../../components/button.tsx";
import { Failed, Page } from "../../components/page.tsx";
import { PauseDialog } from "../../components/pause-dialog.tsx";
import { plural } from "../../format.ts";
import { useControls, useRights } from "../../queries.ts";
import type { Screen } from "../../screen.ts";
import { AdmissionRows } from "./admission.tsx";
import { Changes } from "./changes.tsx";
import { Dependencies } from "./dependencies.tsx";
import { Limits } from "./limits.tsx";
import { Pauses } from "./pauses.tsx";
import { viewOnly } from "./rights.ts";

export const screen: Screen = {
  path: "/controls",
  title: "Controls",
  icon: "M3 2v5M3 10v4M8 2v2M8 7v7M13 2v7M13 12v2M1.500 8.500h3M6.500 5.500h3M11.500 10.500h3",
  key: "l",
  component: Controls,
};

function Controls() {
  const { data, error, refetch } = useControls();
  const rights = useRights();
  const [pausing, setPausing] = useState(false);
  return (
    <Page
      title="Controls"
      note={
        data === undefined
          ? " "
          : `${plural(data.pauses.length, "pause")}, ${plural(data.dependencies?.length ?? 0, "dependency", "dependencies")}, ${plural(data.limits.length, "limit")}`
      }
      actions={
        <Button because={viewOnly(rights)} onClick={() => setPausing(true)}>
          Pause …
        </Button>
      }
    >
      {error === null ? null : <Failed error={error} again={() => void refetch()} />}
      {error !== null && data === undefined ? null : (
        <>
          {data?.hidden === true ? (
            <p className="muted">Tenants and keys are hidden: your role may not see payloads.</p>
          ) : null}
          <Pauses pauses={data?.pauses} />
          <Dependencies dependencies={data === undefined ? undefined : (data.dependencies ?? [])} />
          <Limits controls={data} />
          <AdmissionRows controls={data} />
          <Changes changes={data?.changes ?? []} />
        </>
      )}
      {pausing ? (
        <PauseDialog
          dependencies={data?.dependencies?.map(({ name }) => name)}
          onClose={() => setPausing(false)}
        />
      ) : null}
    </Page>
  );
}
