import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { compact } from "../url.ts";

export type To = {
  readonly path: string;
  readonly params?: Readonly<Record<string, string>>;
  readonly search?: Readonly<Record<string, string | readonly string[] | undefined>>;
};

/** The router's parameters. Its own types need statically declared routes; ours come from a list. */
export function destination({ path, params = {}, search = {} }: To) {
  return { to: path, params: params as never, search: compact(search) as never };
}

/** A link to a screen: `<GoTo path="/queues/$queue" params={{ queue }}>`. */
export function GoTo({
  className,
  children,
  title,
  ...to
}: To & { className?: string; children: ReactNode; title?: string }) {
  return (
    <Link {...destination(to)} className={className ?? ""} title={title}>
      {children}
    </Link>
  );
}
