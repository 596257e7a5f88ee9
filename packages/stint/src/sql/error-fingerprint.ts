/**
 * What a job died of, told apart from what others died of: its reason, or its last error where it has none, without what differs
 * from job to job. Two jobs that died of the same thing have the same.
 *
 * Thousands are looked at for one answer, so it is one pass of a plain pattern: with lookaround it would take ten times as long.
 */

/** The error of the last attempt that had one, of job `w`. */
export const lastError = `(jsonb_path_query_array(w.log, '$[*].error') -> -1)`;

/**
 * Why job `w` died. The reason has the error's name and message in short; the log is looked at only without one: with its stacks it
 * lies apart from the row, and to fetch thousands of those would take seconds.
 */
export const whyDied = `left(coalesce(w.reason, (${lastError} ->> 'class') || ': ' || (${lastError} ->> 'message'), 'no reason was kept'), 300)`;

// How often it was tried says nothing about the error.
const withoutAttempts = (why: string): string =>
  `case when ${why} like 'failed % attempts: %' then substr(${why}, strpos(${why}, ' attempts: ') + 11) else ${why} end`;

// Words with a digit in them are numbers, ids, dates and addresses. Only 404 and its like are kept, because they tell failures apart, and
// only where a status stands: at the beginning of the message, in brackets, or behind one of these words. Elsewhere a number from 400 to
// 599 is a number like any other: "no such chapter 417".
const leads =
  "HTTP|http|[Ss]tatus|[Cc]ode|[Rr]esponse|[Rr]eturned|[Rr]eceived|[Aa]nswered|[Rr]esponded|said|with|got|was|error|an?";
const status = `(?:^|: |[(]|(?:${leads})(?:/[0-9.]+)?[ :=]+)[45][0-9][0-9]`;
const differing = `(${status}[.]?(?:[ ,:;)]|$))|[0-9A-Za-z]*[0-9][0-9A-Za-z]*(?:-[0-9A-Za-z]+|[.:][0-9][0-9A-Za-z]*)*`;

/**
 * What is the same in the reasons of all who died of this. Only its beginning: reasons are cut, and where depends on how long the
 * numbers and ids in them are.
 */
export const commonIn = (why: string): string =>
  `left(regexp_replace(${withoutAttempts(why)}, '${differing}', E'\\\\1…', 'g'), 150)`;

/** The same for people to read: what was kept has a mark behind it, too. */
export const readable = (common: string): string =>
  `regexp_replace(${common}, '(${status}[.]?[ ,:;)]?)…', E'\\\\1', 'g')`;

/** The same in short, for filters and command lines. The kind is in it: whoever replays the mails must not get the charges with them. */
export const fingerprintOf = (kind: string, common: string): string =>
  `left(encode(sha256(convert_to(${kind} || E'\\n' || ${common}, 'UTF8')), 'hex'), 12)`;
