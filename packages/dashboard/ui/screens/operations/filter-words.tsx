import { exact } from "../../components/age.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import type { JobsFilter } from "../../api.ts";
import "./operations.css";

/** A filter as readable text. */
export function FilterWords({ filter }: { filter: JobsFilter }) {
  const { state, since, until, ...names } = filter;
  const states = typeof state === "string" ? [state] : (state ?? []);
  const parts = [
    ...(states.length > 0 ? [{ name: "state", text: states.join(", ") }] : []),
    ...Object.entries(names).map(([name, text]) => ({ name, text })),
    ...(since === undefined ? [] : [{ name: "since", text: exact(since) }]),
    ...(until === undefined ? [] : [{ name: "until", text: exact(until) }]),
  ];
  if (parts.length === 0) return <span className="filter-words">all jobs</span>;
  return (
    <span className="filter-words">
      {parts.map(({ name, text }) => (
        <span key={name} className="filter-word">
          <span className="muted">{name}</span> <PlainText>{text}</PlainText>
        </span>
      ))}
    </span>
  );
}
