import { useState } from "react";
import { Button } from "../../components/button.tsx";
import type { FilterValues } from "../../components/filter-bar.tsx";
import { GoTo } from "../../components/link.tsx";
import { printSearch, qualifiers } from "./search-words.ts";

type View = { readonly name: string; readonly values: FilterValues };

const key = "stint.views";
const most = 20;

/** Named filters, stored in this browser. The URL contains the filter: to share a view, share the link. */
export function SavedViews({ values }: { values: FilterValues }) {
  const [views, setViews] = useState(load);
  const [name, setName] = useState<string>();
  const line = printSearch(values);
  const keep = (next: readonly View[]): void => {
    setViews(next);
    store(next);
  };
  const save = (): void => {
    const given = name?.trim() ?? "";
    if (given !== "") {
      const kept = Object.fromEntries(qualifiers.map((each) => [each, values[each]]));
      keep([...views.filter((view) => view.name !== given), { name: given, values: kept }].slice(-most));
    }
    setName(undefined);
  };
  if (views.length === 0 && line === "") return null;
  return (
    <div className="saved-views" role="group" aria-label="Saved views">
      {views.map((view) => (
        <span key={view.name} className="saved-view">
          <GoTo path="/jobs" search={view.values} title={printSearch(view.values)}>
            {view.name}
          </GoTo>
          <button
            type="button"
            className="saved-view-forget"
            aria-label={`Delete the view ${view.name}`}
            onClick={() => keep(views.filter((each) => each !== view))}
          >
            ×
          </button>
        </span>
      ))}
      {line === "" ? null : name === undefined ? (
        <Button small look="quiet" onClick={() => setName("")}>
          Save view
        </Button>
      ) : (
        <form
          className="saved-view-name"
          onSubmit={(event) => {
            event.preventDefault();
            save();
          }}
        >
          <input
            type="text"
            aria-label="Name of the view"
            placeholder="Name"
            maxLength={60}
            autoFocus
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
          />
          <Button small onClick={save}>
            Save
          </Button>
        </form>
      )}
    </div>
  );
}

/** Stored values of another version, or of another page of this origin, must not break the screen. */
function load(): readonly View[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(key) ?? "[]");
    return Array.isArray(found) ? found.filter(isView).slice(-most) : [];
  } catch {
    return [];
  }
}

function isView(value: unknown): value is View {
  if (typeof value !== "object" || value === null) return false;
  const { name, values } = value as Record<string, unknown>;
  return (
    typeof name === "string" &&
    typeof values === "object" &&
    values !== null &&
    Object.values(values).every((each) => typeof each === "string")
  );
}

function store(views: readonly View[]): void {
  try {
    localStorage.setItem(key, JSON.stringify(views));
  } catch {
    // Best effort: private windows may refuse it.
  }
}
