/** Light, dark, or the system's setting. The choice is stored in this browser. */
import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";
export const themes: readonly Theme[] = ["system", "light", "dark"];

const storageKey = "stint-theme";
const listeners = new Set<() => void>();
const dark = matchMedia("(prefers-color-scheme: dark)");
let theme: Theme = "system";

function put(next: Theme): void {
  theme = next;
  if (next === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = next;
  for (const listener of listeners) listener();
}

export function setTheme(next: Theme): void {
  put(next);
  try {
    localStorage.setItem(storageKey, next);
  } catch {
    // Without storage, the theme lasts until the page is closed.
  }
}

export function startTheme(): void {
  dark.addEventListener("change", () => put(theme));
  try {
    const kept = localStorage.getItem(storageKey);
    put(themes.find((candidate) => candidate === kept) ?? "system");
  } catch {
    put("system");
  }
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const useTheme = (): Theme => useSyncExternalStore(subscribe, () => theme);

/** The effective theme. Changes with the choice and with the system. */
export const useDark = (): boolean =>
  useSyncExternalStore(subscribe, () => theme === "dark" || (theme === "system" && dark.matches));
