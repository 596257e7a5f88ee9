/**
 * The fingerprint of a dead job's error: its reason, or its last error if it has no reason, without the parts that differ from job to
 * job. Two jobs with the same error have the same fingerprint.
 *
 * One query computes thousands of fingerprints, so it is one pass of a plain pattern: with lookaround it would take ten times as long.
 */

/** The error of the last attempt that had one, of job `w`. */
export const lastError = `(jsonb_path_query_array(w.log, '$[*].error') -> -1)`;

/**
 * Why job `w` died. The reason has the error's name and a short message. The log is read only if there is no reason: with its stacks it
 * is stored out of line (TOAST), and reading thousands of logs would take seconds.
 */
export const whyDied = `left(coalesce(w.reason, (${lastError} ->> 'class') || ': ' || (${lastError} ->> 'message'), 'no reason was kept'), 300)`;

// The number of attempts is not part of the error.
const withoutAttempts = (why: string): string =>
  `case when ${why} like 'failed % attempts: %' then substr(${why}, strpos(${why}, ' attempts: ') + 11) else ${why} end`;

// Words with a digit are numbers, ids, dates and addresses. Only status codes such as 404 are kept, because they distinguish failures, and
// only in the place of a status: at the start of the message, in brackets, or after one of these words. Elsewhere a number from 400 to
// 599 is an ordinary number: "no such chapter 417".
const leads =
  "HTTP|http|[Ss]tatus|[Cc]ode|[Rr]esponse|[Rr]eturned|[Rr]eceived|[Aa]nswered|[Rr]esponded|said|with|got|was|error|an?";
const status = `(?:^|: |[(]|(?:${leads})(?:/[0-9.]+)?[ :=]+)[45][0-9][0-9]`;
const differing = `(${status}[.]?(?:[ ,:;)]|$))|[0-9A-Za-z]*[0-9][0-9A-Za-z]*(?:-[0-9A-Za-z]+|[.:][0-9][0-9A-Za-z]*)*`;

/**
 * The common text of all reasons with this fingerprint. Only its start: reasons are cut, at a place that depends on the length of
 * the numbers and ids in them.
 */
export const commonIn = (why: string): string =>
  `left(regexp_replace(${withoutAttempts(why)}, '${differing}', E'\\\\1…', 'g'), 150)`;

/** The readable form, with `…` for left-out parts. */
export const readable = (common: string): string =>
  `regexp_replace(${common}, '(${status}[.]?[ ,:;)]?)…', E'\\\\1', 'g')`;

/** A short hash for filters and command lines. It includes the kind: a replay of failed mails must not include failed charges. */
export const fingerprintOf = (kind: string, common: string): string =>
  `left(encode(sha256(convert_to(${kind} || E'\\n' || ${common}, 'UTF8')), 'hex'), 12)`;
