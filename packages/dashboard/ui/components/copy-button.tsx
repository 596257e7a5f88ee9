import { useEffect, useRef, useState } from "react";
import "./copy-button.css";

/** Copies to the clipboard. Browsers offer no clipboard API on plain http; `document.execCommand` still works there. */
export async function copyText(text: string): Promise<boolean> {
  if (window.isSecureContext && navigator.clipboard !== undefined) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Refused by a policy, or because the page has no focus: fall back to `document.execCommand`.
    }
  }
  return copyBySelection(text);
}

function copyBySelection(text: string): boolean {
  const area = document.createElement("textarea");
  area.value = text;
  area.readOnly = true;
  area.className = "copy-area";
  // A modal dialog makes all elements outside it inert, so the field must be inside.
  const place = document.querySelector("dialog[open]") ?? document.body;
  const before = document.activeElement;
  place.append(area);
  try {
    area.select();
    return document.execCommand("copy");
  } catch {
    return false;
  } finally {
    area.remove();
    if (before instanceof HTMLElement) before.focus();
  }
}

export function CopyButton({ text, label }: { text: string; label: string }) {
  const [said, setSaid] = useState<"copied" | "not copied">();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);

  const copy = async (): Promise<void> => {
    setSaid((await copyText(text)) ? "copied" : "not copied");
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setSaid(undefined), 1500);
  };
  return (
    <button
      type="button"
      className="copy-button"
      aria-label={label}
      title={label}
      onClick={() => void copy()}
    >
      <svg viewBox="0 0 16 16" width="13" height="13" aria-hidden="true">
        {said === "copied" ? (
          <path d="M3.5 8.5l3 3 6-7" />
        ) : (
          <>
            <rect x="5.5" y="5.5" width="7.5" height="8" rx="1.5" />
            <path d="M10.5 5.5v-2a1 1 0 0 0-1-1h-5.5a1 1 0 0 0-1 1v6a1 1 0 0 0 1 1h1.5" />
          </>
        )}
      </svg>
      <span role="status" className={said === undefined ? "copy-said" : "copy-said copy-said-now"}>
        {said ?? ""}
      </span>
    </button>
  );
}
