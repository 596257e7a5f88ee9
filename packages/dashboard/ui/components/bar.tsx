import "./bar.css";

/** A value relative to its limit. Decorative: the text next to it has the same information. */
export function Bar({
  value,
  limit,
  tone = "plain",
  label,
}: {
  readonly value: number;
  readonly limit: number;
  readonly tone?: "plain" | "ok" | "soon" | "late";
  readonly label: string;
}) {
  const share = limit <= 0 ? (value > 0 ? 1 : 0) : Math.min(1, value / limit);
  return (
    <span className={`bar ${tone}`} role="img" aria-label={label}>
      {/* A small value still gets a visible bar. */}
      <span style={{ width: share === 0 ? 0 : `max(2px, ${(share * 100).toFixed(1)}%)` }} />
    </span>
  );
}
