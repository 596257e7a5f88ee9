import type { IncomingMessage } from "node:http";
import { InvalidOptionError } from "stint";

/** Each may do what the ones before it may: look, act on jobs, and (by default) see payloads. */
export const roles = ["view", "operate", "admin"] as const;
export type Role = (typeof roles)[number];

/** What a route may ask for. */
export type Right = "view" | "operate" | "admin";

/** Who is here and what they may do. */
export type Access = {
  /** Recorded in the audit log as the actor. */
  user?: string;
  role: Role;
  /** May see payloads and results. Default: admins only. */
  payloads?: boolean;
};

/**
 * Decide about a request: null sends it away. Do not read its body.
 *
 * `req` is the request as Node knows it, where it came through `dashboard.node`: what your own middleware found out
 * about the session is on it.
 */
export interface Authorize {
  (
    request: Request,
    context: { readonly req?: IncomingMessage },
  ): Access | null | undefined | Promise<Access | null | undefined>;
  /** Sent as WWW-Authenticate with a 401, so that a browser prompts for a password. */
  readonly challenge?: string;
}

/** An access as the routes use it. */
export type Visitor = {
  readonly user: string | null;
  /** Written into the audit. */
  readonly actor: string;
  readonly can: Readonly<Record<Right | "payloads", boolean>>;
};

/** Checks what `authorize` returned. An invalid value must not grant access. */
export function toVisitor(access: Access): Visitor {
  const rank = roles.indexOf(access.role);
  if (rank === -1) {
    throw new InvalidOptionError(
      "authorize",
      `must answer null or { role: ${roles.join(" | ")}, user?, payloads? }`,
    );
  }
  const given: unknown = access.user;
  const user = typeof given === "string" && given !== "" ? plain(given) : null;
  return {
    user,
    actor: user ?? "dashboard",
    can: {
      view: true,
      operate: rank >= 1,
      admin: rank >= 2,
      // Not "whatever is not false": a text from a header, "false" among them, must not show payloads.
      payloads: access.payloads === undefined ? rank >= 2 : (access.payloads as unknown) === true,
    },
  };
}

/** A local user. */
export const localVisitor: Visitor = {
  user: null,
  actor: "dashboard",
  can: { view: true, operate: true, admin: true, payloads: true },
};

/** A name from a token or a proxy's header may hold anything; the audit takes one line of text. */
function plain(user: string): string {
  return user.replaceAll(/[\p{Cc}\p{Cs}\u2028\u2029]/gu, "\uFFFD").slice(0, 200);
}
