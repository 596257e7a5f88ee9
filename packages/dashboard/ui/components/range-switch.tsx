import "./range-switch.css";

/** A choice among a few options, side by side. */
export function RangeSwitch<Word extends string>({
  ranges,
  value,
  set,
}: {
  readonly ranges: readonly Word[];
  readonly value: Word;
  readonly set: (next: Word) => void;
}) {
  return (
    <fieldset className="range-switch">
      <legend className="spoken">Range</legend>
      {ranges.map((range) => (
        <button key={range} type="button" aria-pressed={range === value} onClick={() => set(range)}>
          {range}
        </button>
      ))}
    </fieldset>
  );
}
