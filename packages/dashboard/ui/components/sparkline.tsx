import "./sparkline.css";

type Line = { readonly values: readonly number[]; readonly look: "in" | "out" };

const width = 120;
const height = 28;

/** A line without axes, next to its figures. Lines share one scale, so that they can be compared. */
export function Sparkline({ lines, label }: { readonly lines: readonly Line[]; readonly label: string }) {
  const top = Math.max(1, ...lines.flatMap(({ values }) => values));
  return (
    <svg
      className="sparkline"
      viewBox={`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <path className="ground" d={`M0 ${height - 0.5}H${width}`} />
      {lines.map(({ values, look }) =>
        values.length < 2 ? null : (
          <g key={look} className={look}>
            {look === "in" && <path className="area" d={`${line(values, top)}V${height}H0Z`} />}
            <path className="line" d={line(values, top)} />
          </g>
        ),
      )}
    </svg>
  );
}

function line(values: readonly number[], top: number): string {
  const step = width / (values.length - 1);
  return values
    .map((value, index) => {
      const y = height - 1.5 - (value / top) * (height - 4);
      return `${index === 0 ? "M" : "L"}${(index * step).toFixed(1)} ${y.toFixed(1)}`;
    })
    .join("");
}
