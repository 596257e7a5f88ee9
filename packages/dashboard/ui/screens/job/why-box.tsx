import type { JobState } from "stint";
import type { Explanation } from "stint/inspect";
import { PlainText } from "../../components/plain-text.tsx";

const questions: Record<JobState, string> = {
  scheduled: "Why is it not running?",
  ready: "Why is it not running?",
  retrying: "Why is it not running?",
  parked: "Why is it not running?",
  running: "How is it running?",
  succeeded: "How did it end?",
  dead: "Why is it dead?",
  cancelled: "Why was it cancelled?",
};

/** Ended jobs have no reason to wait. */
const ended: ReadonlySet<JobState> = new Set(["succeeded", "dead", "cancelled"]);

/** Why a job does not run: one sentence, then the findings, most important first. */
export function WhyBox({ why, state }: { why: Explanation; state: JobState }) {
  const blocked = why.findings.some(({ blocks }) => blocks);
  return (
    <section className="why-box" data-blocked={blocked || undefined} aria-label={questions[state]}>
      <h2>{questions[state]}</h2>
      <p className="why-summary">
        <PlainText>{why.summary}</PlainText>
      </p>
      {why.findings.length === 0 ? null : (
        <ul className="why-findings">
          {why.findings.map(({ blocks, text, advice }) => (
            <li key={text} data-blocks={blocks || undefined}>
              <span className="why-mark">
                {blocks ? (ended.has(state) ? "final" : "blocks it") : "found"}
              </span>
              <span>
                <PlainText>{text}</PlainText>
                {advice === null ? null : (
                  <span className="why-advice">
                    → <Advice>{advice}</Advice>
                  </span>
                )}
              </span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** Text between backticks is shown as a command. */
function Advice({ children }: { children: string }) {
  return children.split("`").map((part, index) =>
    // The order of parts in a text never changes
    index % 2 === 1 ? (
      <code key={index}>
        <PlainText>{part}</PlainText>
      </code>
    ) : (
      <PlainText key={index}>{part}</PlainText>
    ),
  );
}
