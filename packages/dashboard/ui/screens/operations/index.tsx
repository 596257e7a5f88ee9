import type { Operation } from "stint/inspect";
import type { Wire } from "../../api.ts";
import { Age } from "../../components/age.tsx";
import { Button } from "../../components/button.tsx";
import { EmptyState } from "../../components/empty-state.tsx";
import { GoTo } from "../../components/link.tsx";
import { Failed, Page } from "../../components/page.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { Table, type Column } from "../../components/table.tsx";
import { sayError } from "../../components/toast.tsx";
import { useAbort, useOperations, useRights } from "../../queries.ts";
import type { Screen } from "../../screen.ts";
import { actions, whyNot } from "./actions.ts";
import { FilterWords } from "./filter-words.tsx";
import { Progress } from "./progress.tsx";
import "./operations.css";

type Row = Wire<Operation>;

const columns: readonly Column<Row>[] = [
  {
    id: "action",
    header: "Action",
    sort: ({ action }) => actions[action].verb,
    cell: ({ action }) => <strong>{actions[action].verb}</strong>,
    card: "title",
  },
  { id: "state", header: "State", sort: ({ state }) => state, cell: ({ state }) => state, card: "corner" },
  {
    id: "progress",
    header: "Progress",
    sort: ({ done, skipped }) => done + skipped,
    cell: (operation) => <Progress operation={operation} />,
  },
  {
    id: "filter",
    header: "Filter, reason",
    sort: ({ reason }) => reason,
    cell: ({ filter, reason }) => (
      <>
        <FilterWords filter={filter} />
        <span className="muted">
          “<PlainText>{reason}</PlainText>”
        </span>
      </>
    ),
    grow: true,
  },
  {
    id: "actor",
    header: "By",
    sort: ({ actor }) => actor,
    cell: ({ actor }) => <PlainText>{actor}</PlainText>,
  },
  {
    id: "at",
    header: "Started",
    sort: ({ createdAt }) => Date.parse(createdAt),
    cell: ({ createdAt }) => <Age at={createdAt} />,
    align: "end",
  },
  { id: "abort", header: "Abort", cell: (operation) => <Abort operation={operation} />, align: "end" },
];

function Abort({ operation }: { operation: Row }) {
  const abort = useAbort();
  const { operate } = useRights();
  if (operation.state !== "running") return null;
  return (
    <Button
      small
      look="danger"
      because={operate ? null : whyNot(actions[operation.action], [], operate)}
      disabled={abort.isPending}
      onClick={() => abort.mutate(operation.id, { onError: sayError })}
    >
      Abort
    </Button>
  );
}

function Operations() {
  const { data, error, refetch } = useOperations();
  return (
    <Page title="Operations" note="Bulk operations: running and finished.">
      {error === null ? null : <Failed error={error} again={() => void refetch()} />}
      {error !== null && data === undefined ? null : (
        <Table
          label="Operations"
          columns={columns}
          rows={data}
          rowId={({ id }) => id}
          rowName={({ action }) => actions[action].verb}
          empty={
            <EmptyState title="No operations yet">
              Narrow the <GoTo path="/jobs">jobs</GoTo> by state, kind or error, then cancel, replay or run
              all matching jobs. Each operation is listed here with its reason and progress.
            </EmptyState>
          }
        />
      )}
    </Page>
  );
}

export const screen: Screen = {
  path: "/operations",
  title: "Operations",
  icon: "M2.5 4h7M2.5 8h11M2.5 12h7M12 2.5v3M12 10.5v3",
  key: "o",
  component: Operations,
};
