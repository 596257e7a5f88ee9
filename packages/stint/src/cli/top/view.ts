/** The view state of `stint top`, and how keys change it. Pure: no terminal. */

export type Screen = "queues" | "queue" | "dead" | "workers" | "slow" | "help";

export type View = {
  readonly screen: Screen;
  /** The index of the selected row among the visible ones. */
  readonly cursor: number;
  /** The opened queue. */
  readonly queue: string | undefined;
  /** Shows only rows that contain this text. */
  readonly filter: string;
  /** Keys are typed into the filter. */
  readonly typing: boolean;
  readonly paused: boolean;
};

export const firstView: View = {
  screen: "queues",
  cursor: 0,
  queue: undefined,
  filter: "",
  typing: false,
  paused: false,
};

/** A key as Node's readline names it. */
export type Key = {
  readonly name?: string | undefined;
  readonly sequence?: string | undefined;
  readonly ctrl?: boolean;
};

/** The visible rows, by name. */
export type Shown = { readonly rows: readonly string[] };

/** The view after a key; undefined: quit. */
export function press(view: View, key: Key, { rows }: Shown): View | undefined {
  const last = Math.max(0, rows.length - 1);
  const cursor = Math.min(view.cursor, last);
  if (key.ctrl === true) return key.name === "c" || key.name === "d" ? undefined : view;
  if (view.typing) return typed(view, key);
  switch (key.name ?? key.sequence ?? "") {
    case "q":
      return undefined;
    case "down":
    case "j":
      return { ...view, cursor: Math.min(cursor + 1, last) };
    case "up":
    case "k":
      return { ...view, cursor: Math.max(cursor - 1, 0) };
    case "pagedown":
      return { ...view, cursor: Math.min(cursor + 10, last) };
    case "pageup":
      return { ...view, cursor: Math.max(cursor - 10, 0) };
    case "home":
      return { ...view, cursor: 0 };
    case "end":
      return { ...view, cursor: last };
    case "return":
    case "enter":
    case "right":
      return view.screen === "queues" && rows[cursor] !== undefined
        ? { ...to(view, "queue"), queue: rows[cursor] }
        : view;
    case "escape":
    case "backspace":
    case "left":
      return view.filter === "" ? to(view, "queues") : { ...view, filter: "", cursor: 0 };
    case "d":
      return to(view, "dead");
    case "w":
      return to(view, "workers");
    case "s":
      return to(view, "slow");
    case "p":
      return { ...view, paused: !view.paused };
    default:
      return pressed(view, key);
  }
}

/** Readline has no names for punctuation keys, only the sent character. */
function pressed(view: View, key: Key): View {
  if (key.sequence === "?") return view.screen === "help" ? to(view, "queues") : to(view, "help");
  if (key.sequence === "/") return { ...view, typing: true, cursor: 0 };
  return view;
}

function typed(view: View, key: Key): View {
  if (key.name === "return" || key.name === "enter") return { ...view, typing: false };
  if (key.name === "escape") return { ...view, typing: false, filter: "", cursor: 0 };
  if (key.name === "backspace") return { ...view, filter: view.filter.slice(0, -1), cursor: 0 };
  const { sequence = "" } = key;
  return /^[\p{L}\p{N}\p{P}\p{S} ]$/u.test(sequence) && view.filter.length < 60
    ? { ...view, filter: view.filter + sequence, cursor: 0 }
    : view;
}

function to(view: View, screen: Screen): View {
  return { ...view, screen, cursor: 0, filter: "", queue: undefined };
}
