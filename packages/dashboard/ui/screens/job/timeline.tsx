import type { JobResponse } from "../../api.ts";
import { Age } from "../../components/age.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { duration } from "../../format.ts";
import { FailureView } from "./failure-view.tsx";

/** The timeline of a job, newest first, with the error of each failed attempt. */
export function Timeline({ response }: { response: JobResponse }) {
  const failures = new Map(response.job.log.map(({ epoch, error }) => [epoch, error]));
  const { job, attemptOfEpoch = {} } = response;
  const numbers: Readonly<Record<number, number>> =
    job.state === "running" ? { ...attemptOfEpoch, [job.epoch]: job.attempts } : attemptOfEpoch;
  const steps = response.timeline.toReversed();
  return (
    <ol className="life" reversed>
      {steps.map((step, index) => {
        const failure =
          step.what === "attempt-ended" && step.epoch !== null ? failures.get(step.epoch) : undefined;
        const attempt = step.epoch === null ? undefined : numbers[step.epoch];
        return (
          // Two steps may be equal in all other fields
          <li key={`${step.at} ${step.what} ${steps.length - index}`} data-what={step.what}>
            <span className="life-at">
              <Age at={step.at} />
            </span>
            <div className="life-what">
              <p>
                <PlainText className="life-title">{step.title}</PlainText>
                <span className="life-facts">
                  {step.durationMs === null ? null : <span>{duration(step.durationMs)}</span>}
                  {attempt === undefined ? null : <span>attempt {attempt}</span>}
                  {step.epoch === null ? null : <span>epoch {step.epoch}</span>}
                  {step.worker === null || step.title.includes(step.worker) ? null : (
                    <PlainText>{step.worker}</PlainText>
                  )}
                </span>
              </p>
              {step.detail === null || failure !== undefined ? null : (
                <p className="muted">
                  <PlainText>{step.detail}</PlainText>
                </p>
              )}
              {failure === undefined ? null : <FailureView failure={failure} />}
            </div>
          </li>
        );
      })}
    </ol>
  );
}
