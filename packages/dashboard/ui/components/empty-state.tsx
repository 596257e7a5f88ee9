import type { ReactNode } from "react";
import "./empty-state.css";

/** An empty list, with the likely reason and the next step. */
export function EmptyState({
  title,
  code,
  children,
}: {
  readonly title: string;
  /** Lines to copy. */
  readonly code?: string;
  readonly children?: ReactNode;
}) {
  return (
    <div className="empty-state">
      <h2>{title}</h2>
      {children !== undefined && <div className="empty-text">{children}</div>}
      {code !== undefined && (
        <pre tabIndex={0} aria-label="Example">
          <code>{code}</code>
        </pre>
      )}
    </div>
  );
}
