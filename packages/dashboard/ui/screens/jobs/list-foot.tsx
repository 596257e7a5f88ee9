import { exact } from "../../components/age.tsx";
import { Button } from "../../components/button.tsx";
import { Banner } from "../../components/page.tsx";
import { TablePages } from "../../components/table-pages.tsx";
import { short } from "../../format.ts";
import type { Search } from "./use-job-list.ts";

/** Below a list of jobs: pagination, and the progress of an unfinished search. */
export function ListFoot({
  shown,
  search,
  newer,
  older,
}: {
  shown: number;
  search: Search | undefined;
  newer: (() => void) | undefined;
  older: (() => void) | undefined;
}) {
  return (
    <>
      {search === undefined ? null : <SearchProgress search={search} shown={shown} further={older} />}
      {newer === undefined && older === undefined ? null : (
        <TablePages onNewer={newer} onOlder={search === undefined ? older : undefined}>
          {shown > 0 ? `${shown} on this page, newest first` : null}
        </TablePages>
      )}
    </>
  );
}

function SearchProgress({
  search,
  shown,
  further,
}: {
  search: Search;
  shown: number;
  further: (() => void) | undefined;
}) {
  const { progress, reached, stop } = search;
  const back = reached === null ? "" : `, back to ${exact(timeOf(reached))}`;
  const how =
    progress === null
      ? ""
      : `Searched ${short(progress.searched)} of about ${short(progress.of)} jobs${back}. `;
  return (
    <Banner tone="info" title={stop === undefined ? "The search was stopped" : "Searching further back …"}>
      {how}
      {shown === 0 ? "No match so far." : null}
      {stop === undefined ? (
        further === undefined ? null : (
          <Button small onClick={further}>
            Search further back
          </Button>
        )
      ) : (
        <Button small onClick={stop}>
          Stop
        </Button>
      )}
    </Banner>
  );
}

/** When a job was enqueued, by its id. */
function timeOf(id: string): string {
  const ms = Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
  return new Date(Number.isNaN(ms) ? 0 : Math.min(ms, Date.now())).toISOString();
}
