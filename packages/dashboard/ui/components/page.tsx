import { useEffect, type ReactNode } from "react";
import { explain } from "../queries.ts";
import { Button } from "./button.tsx";
import "./page.css";

/** The frame of a screen: title, controls next to it, and content. */
export function Page({
  title,
  above,
  actions,
  note,
  children,
}: {
  readonly title: string;
  /** A line above the title, such as a breadcrumb. */
  readonly above?: ReactNode;
  readonly actions?: ReactNode;
  /** A line under the title. */
  readonly note?: ReactNode;
  readonly children: ReactNode;
}) {
  useEffect(() => {
    document.title = `${title} · Stint`;
  }, [title]);
  return (
    <div className="page">
      <header className="page-head">
        <div className="page-title">
          {above !== undefined && <div className="page-above">{above}</div>}
          <h1>{title}</h1>
          {note !== undefined && <div className="page-note">{note}</div>}
        </div>
        {actions !== undefined && <div className="page-actions">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

export function Section({
  title,
  aside,
  children,
}: {
  readonly title: string;
  readonly aside?: ReactNode;
  readonly children: ReactNode;
}) {
  return (
    <section className="section" aria-label={title}>
      <div className="section-head">
        <h2>{title}</h2>
        {aside !== undefined && <div className="section-aside">{aside}</div>}
      </div>
      {children}
    </section>
  );
}

/** An alert above the content. `late` is for current failures. */
export function Banner({
  tone,
  title,
  children,
}: {
  readonly tone: "late" | "soon" | "info";
  readonly title: string;
  readonly children?: ReactNode;
}) {
  return (
    <div className={`banner ${tone}`} role={tone === "late" ? "alert" : "status"}>
      <svg viewBox="0 0 16 16" aria-hidden="true" className="banner-mark">
        {tone === "info" ? (
          <path d="M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13ZM8 7.2v4M8 4.6v.8" />
        ) : (
          <path d="M8 2 15 14H1L8 2ZM8 6.4v3.6M8 11.6v.8" />
        )}
      </svg>
      <div>
        <strong>{title}</strong>
        {children !== undefined && <div className="banner-text">{children}</div>}
      </div>
    </div>
  );
}

/** A failed request, with its message and a retry button. */
export function Failed({ error, again }: { readonly error: unknown; readonly again?: () => void }) {
  const { message, hint } = explain(error);
  return (
    <Banner tone="late" title={message}>
      {hint}
      {again !== undefined && (
        <Button small onClick={again}>
          Try again
        </Button>
      )}
    </Banner>
  );
}

/** A placeholder of the final size, so that the layout does not shift when the content loads. */
export function Skeleton({ lines = 1, height = 16 }: { readonly lines?: number; readonly height?: number }) {
  return (
    <div className="skeleton" aria-hidden="true">
      {Array.from({ length: lines }, (_, line) => (
        <span key={line} style={{ height, width: `${92 - ((line * 37) % 40)}%` }} />
      ))}
    </div>
  );
}
