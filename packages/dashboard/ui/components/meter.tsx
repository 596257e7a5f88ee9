import type { ReactNode } from "react";
import { number } from "../format.ts";
import { Bar } from "./bar.tsx";
import "./meter.css";

/** A bar with its text beside it. Without a limit there is no bar. */
export function Meter({
  value,
  limit,
  tone = "plain",
  label,
  children,
}: {
  readonly value: number;
  readonly limit: number | null;
  readonly tone?: "plain" | "ok" | "soon" | "late";
  readonly label: string;
  readonly children: ReactNode;
}) {
  return (
    <span className="meter">
      {limit === null ? <span /> : <Bar value={value} limit={limit} tone={tone} label={label} />}
      <span>{children}</span>
    </span>
  );
}

/** Places in use, of as many as there may be; null: of any number. */
export function PlacesInUse({ held, max }: { readonly held: number; readonly max: number | null }) {
  return (
    <Meter
      value={held}
      limit={max ?? held}
      tone={max !== null && held >= max ? "soon" : "plain"}
      label={`${held} of ${max ?? "any number"} in use`}
    >
      {number(held)} of {max === null ? "∞" : number(max)}
    </Meter>
  );
}
