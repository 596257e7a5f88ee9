import { useState } from "react";
import { Button } from "../../components/button.tsx";
import type { Column } from "../../components/table.tsx";
import { showToast } from "../../components/toast.tsx";
import type { Row } from "../jobs/columns.tsx";
import { actions } from "../operations/actions.ts";
import { SelectedDialog } from "../operations/selected-dialog.tsx";

function ReplayOne({ job }: { job: Row }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button small onClick={() => setOpen(true)}>
        Replay
      </Button>
      {open ? (
        <SelectedDialog
          action={actions.replay}
          ids={[job.id]}
          onClose={() => setOpen(false)}
          onDone={() => {
            setOpen(false);
            showToast("Job replayed.");
          }}
        />
      ) : null}
    </>
  );
}

export const replayColumn: Column<Row> = {
  id: "replay",
  header: "Replay",
  cell: (job) => <ReplayOne job={job} />,
  align: "end",
  card: "plain",
};
