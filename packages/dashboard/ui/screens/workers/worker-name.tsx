import type { ReactNode } from "react";

/** The id of a worker, and below it its host and what else identifies it. */
export function WorkerName({ id, host, children }: { id: string; host: string; children?: ReactNode }) {
  return (
    <>
      <span className="worker-id mono name" title={id}>
        {id}
      </span>
      <div className="second">
        <span className="name" title={host}>
          {host}
        </span>
        {children}
      </div>
    </>
  );
}
