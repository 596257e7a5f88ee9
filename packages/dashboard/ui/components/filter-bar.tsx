import type { JobState } from "stint";
import { useEffect, useId, useState, type ReactNode } from "react";
import { PlainText } from "./plain-text.tsx";
import { isState, StateShape } from "./state-mark.tsx";
import "./filter-bar.css";

/** The filter as in the URL: names and texts. */
export type FilterValues = Readonly<Record<string, string | undefined>>;
export type FilterChange = (change: FilterValues) => void;

export type FilterField = {
  readonly name: string;
  readonly label: string;
  readonly placeholder?: string;
  readonly suggestions?: readonly string[];
};

/**
 * The filters of a list: buttons for states, a field for each name, chips for active filters. The URL holds the state.
 */
export function FilterBar({
  states,
  fields,
  also = [],
  values,
  onChange,
  children,
}: {
  states: readonly JobState[];
  fields: readonly FilterField[];
  /** Filters set by the children, also shown as chips. */
  also?: readonly FilterField[];
  values: FilterValues;
  onChange: FilterChange;
  /** Further fields. */
  children?: ReactNode;
}) {
  const set = [...fields, ...also].filter(({ name }) => values[name] !== undefined);
  const [open, setOpen] = useState(false);
  return (
    <search className="filter-bar">
      {states.length > 0 ? <StateChoice states={states} values={values} onChange={onChange} /> : null}
      <button
        type="button"
        className="filter-unfold"
        aria-expanded={open}
        onClick={() => setOpen((before) => !before)}
      >
        Filters{set.length > 0 ? ` (${set.length})` : ""}
      </button>
      <div className="filter-fields" data-open={open || undefined}>
        {fields.map((field) => (
          <FilterInput
            key={field.name}
            field={field}
            value={values[field.name]}
            onCommit={(text) => onChange({ [field.name]: text })}
          />
        ))}
        {children}
      </div>
      {set.length > 0 ? (
        <ul className="filter-chips" aria-label="Active filters">
          {set.map(({ name, label }) => (
            <li key={name}>
              <button
                type="button"
                className="chip"
                aria-label={`Remove the filter ${label}`}
                onClick={() => onChange({ [name]: undefined })}
              >
                <span className="chip-label">{label}</span>
                <PlainText className="chip-value">{values[name] ?? ""}</PlainText>
                <span aria-hidden="true">×</span>
              </button>
            </li>
          ))}
          <li>
            <button
              type="button"
              className="chip-clear"
              onClick={() => onChange(Object.fromEntries(set.map(({ name }) => [name, undefined])))}
            >
              Clear all
            </button>
          </li>
        </ul>
      ) : null}
    </search>
  );
}

/** The selected states; none means all. In the URL they are one comma-separated text. */
function StateChoice({
  states,
  values,
  onChange,
}: {
  states: readonly JobState[];
  values: FilterValues;
  onChange: FilterChange;
}) {
  const chosen = chosenStates(values["state"]);
  const toggle = (state: JobState): void => {
    const next = states.filter((each) => (each === state) !== chosen.includes(each));
    onChange({ state: next.length === 0 ? undefined : next.join(",") });
  };
  return (
    <div className="filter-states" role="group" aria-label="States">
      {states.map((state) => (
        <button
          key={state}
          type="button"
          className="state-choice"
          aria-pressed={chosen.includes(state)}
          onClick={() => toggle(state)}
        >
          <StateShape state={state} />
          {state}
        </button>
      ))}
    </div>
  );
}

export function chosenStates(text: string | undefined): JobState[] {
  return [...new Set((text ?? "").split(",").filter((each) => isState(each)))];
}

/** Applies the text on Enter, on blur or after a pause, not with every letter. */
function FilterInput({
  field,
  value,
  onCommit,
}: {
  field: FilterField;
  value: string | undefined;
  onCommit: (text: string | undefined) => void;
}) {
  const id = useId();
  const [draft, setDraft] = useState(value ?? "");
  // The URL wins: the user may have gone back or removed the chip.
  useEffect(() => setDraft(value ?? ""), [value]);

  const text = draft.trim();
  const commit = (): void => {
    if (text !== (value ?? "")) onCommit(text === "" ? undefined : text);
  };
  useEffect(() => {
    if (text === (value ?? "")) return undefined;
    const timer = setTimeout(commit, 600);
    return () => clearTimeout(timer);
    // Only a new letter restarts the pause
  }, [text]);

  return (
    <div className="filter-field">
      <label htmlFor={id}>{field.label}</label>
      <input
        id={id}
        type="text"
        autoComplete="off"
        spellCheck={false}
        maxLength={500}
        value={draft}
        placeholder={field.placeholder}
        list={field.suggestions === undefined ? undefined : `${id}-list`}
        onChange={(event) => setDraft(event.currentTarget.value)}
        onBlur={commit}
        onKeyDown={(event) => {
          if (event.key === "Enter") commit();
          if (event.key === "Escape") event.currentTarget.blur();
        }}
      />
      {field.suggestions === undefined ? null : (
        <datalist id={`${id}-list`}>
          {field.suggestions.map((suggestion) => (
            <option key={suggestion} value={suggestion} />
          ))}
        </datalist>
      )}
    </div>
  );
}
