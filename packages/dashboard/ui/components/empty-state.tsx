import type { ReactNode } from "react";
import "./empty-state.css";

/** Nothing is here: say why that may be, and what to do to change it. */
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
