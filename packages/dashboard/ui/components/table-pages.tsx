/** Pagination of a list: newest first, or by name. */
export function TablePages({
  onNewer,
  onOlder,
  words = ["← Newer", "Older →"],
  children,
}: {
  /** Undefined on the first page. */
  onNewer: (() => void) | undefined;
  /** Undefined on the last page. */
  onOlder: (() => void) | undefined;
  words?: readonly [back: string, on: string];
  children?: React.ReactNode;
}) {
  return (
    <nav className="table-pages" aria-label="Pages">
      <div className="table-pages-said">{children}</div>
      <button type="button" className="table-page" disabled={onNewer === undefined} onClick={onNewer}>
        {words[0]}
      </button>
      <button type="button" className="table-page" disabled={onOlder === undefined} onClick={onOlder}>
        {words[1]}
      </button>
    </nav>
  );
}
