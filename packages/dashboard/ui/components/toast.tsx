/** A short message after an action: `showToast("Cancelled.")`. */
import { useSyncExternalStore } from "react";
import { explain } from "../queries.ts";
import "./toast.css";

type Toast = { readonly id: number; readonly tone: "ok" | "late"; readonly text: string };

const shownMs = 6_000;
let toasts: readonly Toast[] = [];
let nextId = 1;
const listeners = new Set<() => void>();

function put(next: readonly Toast[]): void {
  toasts = next;
  for (const listener of listeners) listener();
}

function dismiss(id: number): void {
  put(toasts.filter((toast) => toast.id !== id));
}

export function showToast(text: string, tone: Toast["tone"] = "ok"): void {
  const toast = { id: nextId++, tone, text };
  put([...toasts.slice(-2), toast]);
  setTimeout(dismiss, shownMs, toast.id);
}

export function sayError(error: unknown): void {
  const { message, hint } = explain(error);
  showToast(hint === null ? message : `${message} ${hint}`, "late");
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function Toasts() {
  const shown = useSyncExternalStore(subscribe, () => toasts);
  return (
    <div className="toasts" role="status" aria-live="polite">
      {shown.map(({ id, tone, text }) => (
        <div key={id} className={`toast ${tone}`}>
          <span>{text}</span>
          <button type="button" aria-label="Dismiss" onClick={() => dismiss(id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
