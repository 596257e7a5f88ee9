import { useId, useState } from "react";
import type { FilterChange, FilterValues } from "./filter-bar.tsx";

/** Spans that end now. The URL stores them as relative spans, so that a link to "the last hour" stays relative. */
const spans = [
  { value: "15m", label: "last 15 minutes", ms: 900_000 },
  { value: "1h", label: "last hour", ms: 3_600_000 },
  { value: "24h", label: "last 24 hours", ms: 86_400_000 },
  { value: "7d", label: "last 7 days", ms: 604_800_000 },
] as const;

/** Parses a time in the URL: a span before now, or an absolute time. */
export function momentOf(text: string | undefined, now: number): string | undefined {
  if (text === undefined) return undefined;
  const span = spans.find(({ value }) => value === text);
  if (span !== undefined) return new Date(now - span.ms).toISOString();
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : new Date(at).toISOString();
}

/** When a job was enqueued. */
export function TimeFilter({ values, onChange }: { values: FilterValues; onChange: FilterChange }) {
  const id = useId();
  const { since, until } = values;
  const isSpan = until === undefined && spans.some(({ value }) => value === since);
  const [own, setOwn] = useState(false);
  const between = own || (!isSpan && (since !== undefined || until !== undefined));
  return (
    <>
      <div className="filter-field">
        <label htmlFor={id}>Enqueued</label>
        <select
          id={id}
          value={between ? "own" : (since ?? "")}
          onChange={(event) => {
            const choice = event.currentTarget.value;
            setOwn(choice === "own");
            if (choice !== "own") onChange({ since: choice === "" ? undefined : choice, until: undefined });
          }}
        >
          <option value="">any time</option>
          {spans.map(({ value, label }) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
          <option value="own">between …</option>
        </select>
      </div>
      {between ? (
        <>
          <Moment
            label="From"
            value={isSpan ? undefined : since}
            onChange={(at) => onChange({ since: at })}
          />
          <Moment label="To" value={until} onChange={(at) => onChange({ until: at })} />
        </>
      ) : null}
    </>
  );
}

function Moment({
  label,
  value,
  onChange,
}: {
  label: string;
  value: string | undefined;
  onChange: (at: string | undefined) => void;
}) {
  const id = useId();
  return (
    <div className="filter-field">
      <label htmlFor={id}>{label}</label>
      <input
        // Keyed by the value in the URL: an external change recreates the field, and typing is not interrupted.
        key={value}
        id={id}
        type="datetime-local"
        defaultValue={value === undefined ? "" : toLocal(value)}
        onBlur={(event) => {
          const text = event.currentTarget.value;
          onChange(text === "" ? undefined : new Date(text).toISOString());
        }}
      />
    </div>
  );
}

/** The format of a datetime-local field: local time without a zone. */
function toLocal(at: string): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return "";
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
