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

/** What has ended is not held back by anything. */
const ended: ReadonlySet<JobState> = new Set(["succeeded", "dead", "cancelled"]);

/** The answer in plain words: one sentence, then what was found, most important first. */
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

/** What stands between backticks is a command, and looks like one. */
function Advice({ children }: { children: string }) {
  return children.split("`").map((part, index) =>
    // The parts of one text never move
    index % 2 === 1 ? (
      <code key={index}>
        <PlainText>{part}</PlainText>
      </code>
    ) : (
      <PlainText key={index}>{part}</PlainText>
    ),
  );
}
