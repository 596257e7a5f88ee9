/** Pagination of a list, newest first. */
export function TablePages({
  onNewer,
  onOlder,
  children,
}: {
  /** Undefined on the newest page. */
  onNewer: (() => void) | undefined;
  /** Undefined on the oldest page. */
  onOlder: (() => void) | undefined;
  children?: React.ReactNode;
}) {
  return (
    <nav className="table-pages" aria-label="Pages">
      <div className="table-pages-said">{children}</div>
      <button type="button" className="table-page" disabled={onNewer === undefined} onClick={onNewer}>
        ← Newer
      </button>
      <button type="button" className="table-page" disabled={onOlder === undefined} onClick={onOlder}>
        Older →
      </button>
    </nav>
  );
}
