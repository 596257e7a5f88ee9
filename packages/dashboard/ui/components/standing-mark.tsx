import type { Standing } from "../standing.ts";
import "./standing-mark.css";

const shapes: Record<Standing, string> = {
  ok: "M2 6.3 4.8 9 10 3.2",
  soon: "M6 1.2 11 10.500H1L6 1.200ZM6 5v2.400M6 8.900v.3",
  paused: "M4 2.500v7M8 2.500v7",
  late: "M2.5 2.500l7 7M9.5 2.500l-7 7",
};

/** Shape, word and colour together, so that no information depends on colour alone. */
export function StandingMark({
  standing,
  word = standing,
}: {
  readonly standing: Standing;
  readonly word?: string;
}) {
  return (
    <span className={`standing ${standing}`}>
      <svg viewBox="0 0 12 12" aria-hidden="true">
        <path d={shapes[standing]} />
      </svg>
      {word}
    </span>
  );
}
