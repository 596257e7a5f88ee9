import type { Failure } from "stint";
import type { Wire } from "../../api.ts";
import { CopyButton } from "../../components/copy-button.tsx";
import { PlainText } from "../../components/plain-text.tsx";

/** The error of an attempt, with its causes, and its stack on demand. */
export function FailureView({ failure }: { failure: Wire<Failure> }) {
  return (
    <div className="failure">
      <p className="failure-head">
        <PlainText className="failure-class">{failure.class}</PlainText>
        {failure.code === undefined ? null : <PlainText className="failure-code">{failure.code}</PlainText>}
      </p>
      <p className="failure-message">
        <PlainText>{failure.message}</PlainText>
      </p>
      {failure.causes === undefined || failure.causes.length === 0 ? null : (
        <ol className="failure-causes" aria-label="Caused by">
          {failure.causes.map((cause, index) => (
            // The order of causes never changes
            <li key={index}>
              <span className="muted">caused by </span>
              <PlainText className="failure-class">{cause.class}</PlainText>{" "}
              <PlainText>{cause.message}</PlainText>
            </li>
          ))}
        </ol>
      )}
      {failure.stack === undefined ? null : (
        <details className="failure-stack">
          <summary>Stack</summary>
          <CopyButton text={failure.stack} label="Copy the stack" />
          <pre tabIndex={0} aria-label="Stack">
            <PlainText>{failure.stack}</PlainText>
          </pre>
        </details>
      )}
      {failure.truncated === true ? (
        <p className="muted">Part of this error was too long and was cut.</p>
      ) : null}
    </div>
  );
}
