/** Keys for the whole page. A key pressed while typing, or with a modifier it does not name, is left alone. */
import { useEffect, useRef } from "react";

/** Maps a key (`j`, `Enter`, `?`, `mod+k`, `g h`) to its action. `mod` is Ctrl, or Cmd on a Mac. */
export type Shortcuts = Readonly<Record<string, (event: KeyboardEvent) => void>>;

/** How long the first key of a sequence is remembered. */
const chordMs = 1_200;

/** Handles keys while the component is mounted. Every caller receives every key. */
export function useShortcuts(keys: Shortcuts, enabled = true): void {
  const latest = useRef(keys);
  useEffect(() => {
    latest.current = keys;
  });

  useEffect(() => {
    if (!enabled) return undefined;
    let first = "";
    let firstAt = 0;
    const onKey = (event: KeyboardEvent) => {
      const name = nameOf(event);
      if (event.defaultPrevented || event.isComposing) return;
      const typing = isTyping(event.target);
      if (typing && !name.startsWith("mod+") && name !== "Escape") return;
      // An open dialog handles all keys.
      if (document.querySelector("dialog[open]") !== null) return;
      const chord = event.timeStamp - firstAt < chordMs ? `${first} ${name}` : "";
      first = name;
      firstAt = event.timeStamp;
      // After `g`, a letter selects a screen and does not trigger its own action.
      const act = latest.current[chord] ?? (chord.startsWith("g ") ? undefined : latest.current[name]);
      if (act === undefined) return;
      // A focused button or link handles Enter itself.
      if (name === "Enter" && isPressable(event.target)) return;
      event.preventDefault();
      if (chord in latest.current) first = "";
      act(event);
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [enabled]);
}

function nameOf(event: KeyboardEvent): string {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const named = event.shiftKey && event.key.length > 1 ? `shift+${key}` : key;
  if (event.altKey) return `alt+${named}`;
  return event.metaKey || event.ctrlKey ? `mod+${named}` : named;
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target instanceof HTMLTextAreaElement) return true;
  if (target instanceof HTMLSelectElement) return true;
  const quiet = new Set(["checkbox", "radio", "button", "submit"]);
  return target instanceof HTMLInputElement && !quiet.has(target.type);
}

function isPressable(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("a[href],button,summary,input,select") !== null;
}

/** How `mod` is written on this machine. */
export const modKey = /mac|iphone|ipad/i.test(navigator.userAgent) ? "⌘" : "Ctrl";
