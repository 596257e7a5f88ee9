import type { Session } from "../db/session.ts";
import type { KindView } from "../inspect/types.ts";
import type { Seen } from "./finding.ts";

/** What is looked at, and how to get at it. */
export type Subject = {
  readonly schema: string;
  /** The connection that most questions are asked on. */
  readonly session: Session;
  /** Another one, to be ended by who asked for it. */
  readonly open: () => Promise<Session>;
  /** What is normal for each kind, where that can be asked. */
  readonly kinds: () => Promise<readonly KindView[]>;
  /** How long a transaction may stay open, or a lock be held, before it is worth a word. */
  readonly patienceMs: number;
  /** How the clients of this installation connect, as far as the config says. */
  readonly uses: Uses;
};

/** Named statements and LISTEN: asked for, ruled out, or (undefined) used unless a pooler is detected. */
export type Uses = { readonly prepare: boolean | undefined; readonly notify: boolean | undefined };

/** One thing that is looked at. `look` asks for the facts and gives them to a rule that touches nothing. */
export type Check = {
  readonly name: string;
  /** Asked only of an installed schema. */
  readonly needsSchema: boolean;
  readonly look: (subject: Subject) => Promise<Seen>;
};
