import "./bar.css";

/** How full something is, against its limit. The word beside it says what that means; the bar is for the eye. */
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
      {/* A little is never drawn as nothing. */}
      <span style={{ width: share === 0 ? 0 : `max(2px, ${(share * 100).toFixed(1)}%)` }} />
    </span>
  );
}
