import { useEffect, useId, useRef, type ReactNode } from "react";
import "./dialog.css";

/**
 * A native modal dialog: it traps the focus, makes the page inert, closes on Esc and restores the focus.
 */
export function Dialog({
  title,
  onClose,
  children,
  actions,
  wide = false,
}: {
  title: string;
  onClose: () => void;
  children: ReactNode;
  actions?: ReactNode;
  wide?: boolean;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();

  useEffect(() => {
    const shown = dialog.current;
    if (shown === null) return undefined;
    const before = document.activeElement;
    if (!shown.open) shown.showModal();
    return () => {
      shown.close();
      // The browser restores the focus only if the dialog is closed before it is removed.
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);

  return (
    <dialog
      ref={dialog}
      className={wide ? "dialog dialog-wide" : "dialog"}
      aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onMouseDown={(event) => {
        // The backdrop belongs to the dialog element itself; anything inside is another target.
        if (event.target === dialog.current) onClose();
      }}
      // React events bubble through the component tree; they must not reach the row or table that opened the dialog.
      onKeyDown={(event) => event.stopPropagation()}
      onClick={(event) => event.stopPropagation()}
    >
      <div className="dialog-box">
        <header className="dialog-head">
          <h2 id={heading}>{title}</h2>
        </header>
        <div className="dialog-body">{children}</div>
        {actions === undefined ? null : <footer className="dialog-actions">{actions}</footer>}
      </div>
    </dialog>
  );
}

/** A field for text with its label above and a hint below. */
export function Field({
  label,
  hint,
  value,
  onChange,
  autoFocus = false,
  placeholder,
  suggestions,
}: {
  label: ReactNode;
  hint?: ReactNode;
  value: string;
  onChange: (value: string) => void;
  autoFocus?: boolean;
  placeholder?: string;
  suggestions?: readonly string[];
}) {
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (autoFocus) input.current?.focus();
  }, [autoFocus]);
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input
        ref={input}
        id={id}
        type="text"
        autoComplete="off"
        spellCheck={false}
        maxLength={500}
        value={value}
        placeholder={placeholder}
        list={suggestions === undefined ? undefined : `${id}-list`}
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
        onChange={(event) => onChange(event.currentTarget.value)}
      />
      {suggestions === undefined ? null : (
        <datalist id={`${id}-list`}>
          {suggestions.map((suggestion) => (
            <option key={suggestion} value={suggestion} />
          ))}
        </datalist>
      )}
      {hint === undefined ? null : (
        <p className="field-hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  );
}

/** Asks for the name of the environment. The action is enabled only by the exact name. */
export function TypedConfirmation({
  word,
  value,
  onChange,
}: {
  word: string;
  value: string;
  onChange: (value: string) => void;
}) {
  return (
    <Field
      label={
        <>
          This is production. Type <code>{word}</code> to continue
        </>
      }
      value={value}
      onChange={onChange}
    />
  );
}
