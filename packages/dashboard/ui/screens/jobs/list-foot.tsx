import { Button } from "../../components/button.tsx";
import { Banner } from "../../components/page.tsx";
import { TablePages } from "../../components/table-pages.tsx";

/** Below a list of jobs: the way on, and an honest word where the search stopped early. */
export function ListFoot({
  shown,
  partial,
  newer,
  older,
}: {
  shown: number;
  partial: boolean;
  newer: (() => void) | undefined;
  older: (() => void) | undefined;
}) {
  return (
    <>
      {partial ? (
        <Banner tone="info" title="The search stopped at its limit">
          What is shown is not all there is: older jobs were not looked at.
          {older === undefined ? null : (
            <Button small onClick={older}>
              Search further back
            </Button>
          )}
        </Banner>
      ) : null}
      {newer === undefined && older === undefined ? null : (
        <TablePages onNewer={newer} onOlder={older}>
          {shown > 0 ? `${shown} on this page, newest first` : null}
        </TablePages>
      )}
    </>
  );
}
