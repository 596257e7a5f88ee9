/** How bad it is: an error stops work or loses it, a warning will, a note is worth knowing. */
export type Level = "error" | "warning" | "note";

export type Finding = {
  readonly level: Level;
  /** What is wrong, in one sentence. */
  readonly title: string;
  /** The object it is about. */
  readonly what: string;
  /** What to do, with the exact statement or option. */
  readonly fix: string;
};

/** The result of one check: a summary of the facts, also where nothing is wrong, and the findings. */
export type Seen = {
  readonly seen: string;
  readonly findings: readonly Finding[];
  /** There is no installation for the other checks to examine. */
  readonly absent?: true;
};

export type Checked = Seen & { readonly check: string };

export function error(title: string, what: string, fix: string): Finding {
  return { level: "error", title, what, fix };
}

export function warning(title: string, what: string, fix: string): Finding {
  return { level: "warning", title, what, fix };
}

export function note(title: string, what: string, fix: string): Finding {
  return { level: "note", title, what, fix };
}
