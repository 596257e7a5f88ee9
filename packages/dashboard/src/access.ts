import type { IncomingMessage } from "node:http";
import { InvalidOptionError } from "stint";

/** Each role includes the rights of the previous ones: view, act on jobs, and (by default) see payloads. */
export const roles = ["view", "operate", "admin"] as const;
export type Role = (typeof roles)[number];

/** Rights that a route may require. */
export type Right = "view" | "operate" | "admin";

/** The visitor and their rights. */
export type Access = {
  /** Recorded in the audit log as the actor. */
  user?: string;
  role: Role;
  /** May see payloads and results. Default: admins only. */
  payloads?: boolean;
};

/**
 * Authorizes a request; null refuses it. Do not read the body.
 *
 * `req` is the Node request of `dashboard.node`. It carries what your own middleware added, such as a session.
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
      `must return null or { role: ${roles.join(" | ")}, user?, payloads? }`,
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
      // Only `true` grants the right: a text from a header, such as "false", must not show payloads.
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

/** A name from a token or a proxy's header may contain any text; the audit log stores one line. */
function plain(user: string): string {
  return user.replaceAll(/[\p{Cc}\p{Cs}\u2028\u2029]/gu, "\uFFFD").slice(0, 200);
}
