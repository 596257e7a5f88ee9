import type { Session } from "../db/session.ts";
import type { KindView } from "../inspect/types.ts";
import type { Seen } from "./finding.ts";

/** What is examined, and how to reach it. */
export type Subject = {
  readonly schema: string;
  /** The connection of most checks. */
  readonly session: Session;
  /** Opens another connection; the caller must end it. */
  readonly open: () => Promise<Session>;
  /** The normal run times of each kind, where they are known. */
  readonly kinds: () => Promise<readonly KindView[]>;
  /** How long a transaction may stay open, or a lock be held, before it is a finding. */
  readonly patienceMs: number;
  /** How the clients of this installation connect, as far as the config says. */
  readonly uses: Uses;
};

/** Named statements and LISTEN: requested, ruled out, or (undefined) used unless a pooler is detected. */
export type Uses = { readonly prepare: boolean | undefined; readonly notify: boolean | undefined };

/** One check. `look` reads the facts and passes them to a pure rule. */
export type Check = {
  readonly name: string;
  /** Runs only on an installed schema. */
  readonly needsSchema: boolean;
  readonly look: (subject: Subject) => Promise<Seen>;
};
