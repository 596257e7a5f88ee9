import { useState } from "react";
import { CopyButton } from "./copy-button.tsx";
import { PlainText } from "./plain-text.tsx";
import "./json-view.css";
import { number } from "../format.ts";

/** How much of a value is shown at first: a payload of megabytes must not freeze the page. */
const limits = { children: 100, characters: 400, openDepth: 2, openChildren: 20 };

/** The server's placeholder for left-out parts. */
const redacted = "[redacted]";

/** A JSON value as a tree. Everything in it is a text node. */
export function JsonView({ value, label }: { value: unknown; label: string }) {
  return (
    <div className="json-view">
      <div className="json-copy">
        <CopyButton text={JSON.stringify(value, null, 2) ?? "null"} label={`Copy ${label}`} />
      </div>
      <Value value={value} depth={0} />
    </div>
  );
}

function Value({ value, depth, name }: { value: unknown; depth: number; name?: string | undefined }) {
  if (Array.isArray(value) || isRecord(value)) return <Branch value={value} depth={depth} name={name} />;
  return (
    <div className="json-line">
      <Name name={name} />
      <Leaf value={value} />
    </div>
  );
}

function Branch({
  value,
  depth,
  name,
}: {
  value: Record<string, unknown> | unknown[];
  depth: number;
  name: string | undefined;
}) {
  const list = Array.isArray(value);
  const names = Object.keys(value);
  const [open, setOpen] = useState(depth < limits.openDepth && names.length <= limits.openChildren);
  const [shown, setShown] = useState(limits.children);
  const [first, last] = list ? ["[", "]"] : ["{", "}"];

  if (names.length === 0) {
    return (
      <div className="json-line">
        <Name name={name} />
        <span className="json-mark">
          {first}
          {last}
        </span>
      </div>
    );
  }
  return (
    <div className="json-branch">
      <button type="button" className="json-fold" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Name name={name} />
        <span className="json-mark">{open ? first : `${first} … ${last}`}</span>
        {open ? null : (
          <span className="json-size">
            {number(names.length)} {list ? "items" : "fields"}
          </span>
        )}
      </button>
      {open ? (
        <>
          <div className="json-children">
            {names.slice(0, shown).map((child) => (
              <Value
                key={child}
                value={(value as Record<string, unknown>)[child]}
                depth={depth + 1}
                name={list ? undefined : child}
              />
            ))}
            {names.length > shown ? (
              <button
                type="button"
                className="json-more"
                onClick={() => setShown(shown + limits.children * 5)}
              >
                show more ({number(names.length - shown)} left)
              </button>
            ) : null}
          </div>
          <span className="json-mark">{last}</span>
        </>
      ) : null}
    </div>
  );
}

function Name({ name }: { name: string | undefined }) {
  if (name === undefined) return null;
  return (
    <>
      <PlainText className="json-name">{name}</PlainText>
      <span className="json-mark">: </span>
    </>
  );
}

function Leaf({ value }: { value: unknown }) {
  const [whole, setWhole] = useState(false);
  if (value === redacted) return <span className="json-hidden">redacted</span>;
  if (typeof value !== "string") return <span className={`json-${typeOf(value)}`}>{String(value)}</span>;

  const cut = !whole && value.length > limits.characters;
  return (
    <>
      <span className="json-string">
        "<PlainText>{escapeLines(cut ? value.slice(0, limits.characters) : value)}</PlainText>
        {cut ? "…" : '"'}
      </span>
      {cut ? (
        <button type="button" className="json-more" onClick={() => setWhole(true)}>
          show all {number(value.length)} characters
        </button>
      ) : null}
    </>
  );
}

/** Escapes quotes and line breaks as JSON does, so that one string cannot look like two. */
function escapeLines(text: string): string {
  return text
    .replaceAll("\\", "\\\\")
    .replaceAll('"', '\\"')
    .replaceAll("\n", "\\n")
    .replaceAll("\r", "\\r")
    .replaceAll("\t", "\\t");
}

function typeOf(value: unknown): string {
  return value === null || value === undefined ? "null" : typeof value;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
