import { useEffect, useId, useState } from "react";
import { Button } from "../../components/button.tsx";
import { copyText } from "../../components/copy-button.tsx";
import type { FilterChange, FilterValues } from "../../components/filter-bar.tsx";
import { asCommand, printSearch, readSearch, suggest, type Known } from "./search-words.ts";

/** The whole filter as one line of text. It mirrors the fields below: a change of either changes both, and the URL. */
export function SearchBox({
  values,
  known,
  schema,
  onChange,
}: {
  values: FilterValues;
  known: Known;
  schema: string | undefined;
  onChange: FilterChange;
}) {
  const id = useId();
  const line = printSearch(values);
  const [draft, setDraft] = useState(line);
  const [problem, setProblem] = useState<string>();
  const [said, setSaid] = useState("");
  // The URL wins: a field was changed, or the user went back.
  useEffect(() => setDraft(line), [line]);

  const commit = (): void => {
    const read = readSearch(draft, known);
    setProblem(read.problem);
    if (read.problem === undefined && printSearch(read.values) !== line) onChange(read.values);
  };
  return (
    <form
      className="search-box"
      role="search"
      aria-label="Search jobs"
      onSubmit={(event) => {
        event.preventDefault();
        commit();
      }}
    >
      <label htmlFor={id} className="spoken">
        Search jobs
      </label>
      <input
        id={id}
        type="search"
        autoComplete="off"
        spellCheck={false}
        maxLength={1_000}
        placeholder="kind:send-receipt state:dead error:timeout"
        value={draft}
        list={`${id}-list`}
        aria-describedby={problem === undefined ? undefined : `${id}-problem`}
        onChange={(event) => setDraft(event.currentTarget.value)}
        onBlur={commit}
      />
      <datalist id={`${id}-list`}>
        {suggest(draft, known).map((offer) => (
          <option key={offer} value={offer} />
        ))}
      </datalist>
      <Button
        small
        onClick={() => {
          void copyText(asCommand(values, schema)).then((done) => setSaid(done ? "Copied" : "Not copied"));
        }}
      >
        Copy as CLI
      </Button>
      <span role="status" className="muted">
        {said}
      </span>
      {problem === undefined ? null : (
        <p id={`${id}-problem`} className="warn" role="alert">
          {problem}
        </p>
      )}
    </form>
  );
}
