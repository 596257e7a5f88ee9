import { useId, type ReactNode } from "react";

/** One of a few words, in a dialog. */
export function SelectField<Word extends string>({
  label,
  hint,
  value,
  options,
  onChange,
}: {
  label: string;
  hint?: ReactNode;
  value: Word;
  options: Readonly<Record<Word, string>>;
  onChange: (value: Word) => void;
}) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <select
        id={id}
        value={value}
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
        onChange={(event) => onChange(event.currentTarget.value as Word)}
      >
        {Object.entries<string>(options).map(([word, text]) => (
          <option key={word} value={word}>
            {text}
          </option>
        ))}
      </select>
      {hint === undefined ? null : (
        <p className="field-hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  );
}

/** Several lines of text, in a dialog. `problem`: why they cannot be used. */
export function AreaField({
  label,
  problem,
  value,
  onChange,
}: {
  label: string;
  problem: string | null;
  value: string;
  onChange: (value: string) => void;
}) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <textarea
        id={id}
        className="mono"
        rows={3}
        spellCheck={false}
        value={value}
        aria-invalid={problem !== null}
        aria-describedby={problem === null ? undefined : `${id}-problem`}
        onChange={(event) => onChange(event.currentTarget.value)}
      />
      {problem === null ? null : (
        <p className="field-hint warn" id={`${id}-problem`}>
          {problem}
        </p>
      )}
    </div>
  );
}
