import type { JobResponse } from "../../api.ts";
import { Age } from "../../components/age.tsx";
import { Bar } from "../../components/bar.tsx";
import { Section } from "../../components/page.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { duration, number } from "../../format.ts";

/** Progress, steps, sleeps, waits, log lines, and signals that the job has not received. */
export function Steps({ response }: { response: JobResponse }) {
  const { steps = [], progress = null, signals = [], stalledMs = null } = response;
  if (steps.length === 0 && progress === null && signals.length === 0) return null;
  return (
    <Section title="Steps">
      <div className="card">
        {progress === null ? null : <Progress progress={progress} stalledMs={stalledMs} />}
        {steps.length === 0 ? null : (
          <ol className="life" aria-label="Steps">
            {steps.map(({ seq, name, state, at, until, tookMs, result }) => (
              <li key={name} data-what={`step-${state}`}>
                <span className="life-at">
                  <Age at={at} />
                </span>
                <div className="life-what">
                  <p>
                    <PlainText className="life-title">{name}</PlainText>
                    <span className="life-facts">
                      <span>{state === "timed-out" ? "timed out" : state}</span>
                      {tookMs === null ? null : <span>{duration(tookMs)}</span>}
                      {state === "waiting" && until !== null ? (
                        <span>
                          until <Age at={until} />
                        </span>
                      ) : null}
                      <span>step {seq}</span>
                    </span>
                  </p>
                  {result === null ? null : (
                    <p className="muted mono break">
                      <PlainText>{short(result)}</PlainText>
                    </p>
                  )}
                </div>
              </li>
            ))}
          </ol>
        )}
        {signals.length === 0 ? null : <Signals signals={signals} />}
        {progress === null || progress.lines.length === 0 ? null : <Lines progress={progress} />}
      </div>
    </Section>
  );
}

type ProgressView = NonNullable<NonNullable<JobResponse["progress"]>>;

function Progress({ progress, stalledMs }: { progress: ProgressView; stalledMs: number | null }) {
  const { fraction, note, at, checkpoint, checkpointAt } = progress;
  const percent = fraction === null ? null : Math.round(fraction * 100);
  return (
    <div className="card-padded job-progress">
      {percent === null ? null : (
        <>
          <Bar
            value={percent}
            limit={100}
            tone={stalledMs === null ? "ok" : "late"}
            label={`${percent} % done`}
          />
          <p>
            <strong>{percent} %</strong>
            {note === null ? null : (
              <>
                {" "}
                <PlainText>{note}</PlainText>
              </>
            )}
          </p>
        </>
      )}
      <p className={stalledMs === null ? "muted" : "warn"}>
        {stalledMs === null ? "Last report " : `Stalled for ${duration(stalledMs)}; last report `}
        <Age at={at} />
        {checkpointAt === null ? null : (
          <>
            {" · checkpoint "}
            <PlainText className="mono break">{short(checkpoint)}</PlainText> <Age at={checkpointAt} />
          </>
        )}
      </p>
    </div>
  );
}

function Signals({ signals }: { signals: NonNullable<JobResponse["signals"]> }) {
  return (
    <ul className="audit" aria-label="Signals not received yet">
      {signals.map(({ id, name, sentAt, sentBy, payload }) => (
        <li key={id}>
          <span className="life-at">
            <Age at={sentAt} />
          </span>
          <span>
            Signal{" "}
            <strong>
              <PlainText>{name}</PlainText>
            </strong>
            {sentBy === null ? null : (
              <>
                {" sent by "}
                <PlainText>{sentBy}</PlainText>
              </>
            )}
            , not received yet{" "}
            {payload === null ? null : <PlainText className="mono break">{short(payload)}</PlainText>}
          </span>
        </li>
      ))}
    </ul>
  );
}

function Lines({ progress: { lines, lineCount } }: { progress: ProgressView }) {
  const earlier = lineCount - lines.length;
  return (
    <div className="card-padded">
      <ol className="job-lines mono" aria-label="Log">
        {earlier > 0 ? <li className="muted">… {earlier.toLocaleString("en")} earlier lines</li> : null}
        {lines.map(({ at, text }, index) => (
          // Two lines may be equal in all other fields
          <li key={`${at} ${index}`}>
            <span className="muted job-line-number">{number(earlier + index + 1)}</span>{" "}
            <span className="muted">{at.slice(11, 19)}</span> <PlainText>{text}</PlainText>
          </li>
        ))}
      </ol>
    </div>
  );
}

function short(value: unknown): string {
  const text = JSON.stringify(value) ?? "null";
  return text.length > 300 ? `${text.slice(0, 300)}…` : text;
}
