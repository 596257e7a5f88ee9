import { useNavigate } from "@tanstack/react-router";
import { useDeferredValue, useId, useState, type KeyboardEvent } from "react";
import { destination, type To } from "../components/link.tsx";
import { togglePaused } from "../live.ts";
import { useHealth, useKinds } from "../queries.ts";
import { navigation } from "../screens.ts";
import { setTheme, themes } from "../theme.ts";
import { Overlay } from "./overlay.tsx";

type Entry = {
  readonly sort: string;
  readonly text: string;
  readonly hint?: string | undefined;
  readonly run: () => void;
};

const most = 12;
const jobId = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;

/** The command palette: screens, queues, kinds, a job by its id, and global actions. */
export function Palette({ close }: { readonly close: () => void }) {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const wanted = useDeferredValue(typed.trim());
  const found = useEntries(wanted);
  const current = Math.min(at, Math.max(0, found.length - 1));
  const listId = useId();

  const run = (entry: Entry | undefined) => {
    if (entry === undefined) return;
    close();
    entry.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setAt((current + 1) % Math.max(1, found.length));
    else if (event.key === "ArrowUp") setAt((current - 1 + found.length) % Math.max(1, found.length));
    else if (event.key === "Enter") run(found[current]);
    else return;
    event.preventDefault();
  };

  return (
    <Overlay label="Go to" close={close}>
      <div className="palette">
        <input
          autoFocus
          role="combobox"
          aria-expanded="true"
          aria-controls={listId}
          aria-activedescendant={found.length > 0 ? `${listId}-${current}` : undefined}
          aria-label="Screen, queue, kind or job id"
          placeholder="Screen, queue, kind or job id"
          autoComplete="off"
          spellCheck={false}
          value={typed}
          onChange={(event) => {
            setTyped(event.target.value);
            setAt(0);
          }}
          onKeyDown={onKeyDown}
        />
        <ul id={listId} role="listbox" aria-label="Found">
          {found.map((entry, index) => (
            <li
              key={`${entry.sort} ${entry.text}`}
              id={`${listId}-${index}`}
              role="option"
              aria-selected={index === current}
              onMouseMove={() => setAt(index)}
              onClick={() => run(entry)}
            >
              <span className="palette-sort">{entry.sort}</span>
              <span className="palette-text">{entry.text}</span>
              {entry.hint !== undefined && <kbd>{entry.hint}</kbd>}
            </li>
          ))}
        </ul>
        {found.length === 0 && <p className="muted">No matches. Enter a whole id to open a job.</p>}
      </div>
    </Overlay>
  );
}

function useEntries(wanted: string): readonly Entry[] {
  const navigate = useNavigate();
  const { data: health } = useHealth();
  const { data: kinds } = useKinds();
  const go = (to: To) => () => void navigate(destination(to));
  if (jobId.test(wanted)) {
    return [
      { sort: "Job", text: wanted, run: go({ path: "/jobs/$id", params: { id: wanted.toLowerCase() } }) },
    ];
  }
  const all: Entry[] = [
    ...navigation.map(({ path, title, key }) => ({
      sort: "Screen",
      text: title,
      hint: key === undefined ? undefined : `g ${key}`,
      run: go({ path }),
    })),
    ...(health?.queues ?? []).map(({ queue }) => ({
      sort: "Queue",
      text: queue,
      run: go({ path: "/queues/$queue", params: { queue } }),
    })),
    ...(kinds ?? []).map(({ kind }) => ({
      sort: "Kind",
      text: kind,
      run: go({ path: "/jobs", search: { kind } }),
    })),
    { sort: "Do", text: "Pause or resume updates", hint: "g p", run: togglePaused },
    ...themes.map((theme) => ({ sort: "Do", text: `Theme: ${theme}`, run: () => setTheme(theme) })),
  ];
  const words = wanted.toLowerCase().split(/\s+/);
  return all
    .filter(({ sort, text }) => words.every((word) => `${sort} ${text}`.toLowerCase().includes(word)))
    .slice(0, most);
}
