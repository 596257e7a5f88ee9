import { createHash, timingSafeEqual } from "node:crypto";
import { InvalidOptionError } from "stint";
import type { Access, Authorize, Role } from "./access.ts";

export type Token = { token: string; user?: string; role?: Role; payloads?: boolean };

/** Shorter secrets can be guessed by brute force. */
const shortest = 16;

/**
 * Admits requests with `Authorization: Bearer TOKEN`. A bare token has the role admin.
 *
 * @throws {InvalidOptionError} A token is shorter than 16 characters.
 */
export function bearer(tokens: string | Token | readonly (string | Token)[]): Authorize {
  const known = [tokens].flat().map((one) => {
    // An undefined token, for example of a missing environment variable, must be refused.
    const given = typeof one === "object" ? one : { token: one };
    return { digest: digestOf(requireSecret("bearer", given.token)), access: accessOf(given) };
  });
  return withChallenge('Bearer realm="Stint"', (request) => {
    const sent = credentials(request, "bearer");
    return sent === undefined ? null : pick(known, sent);
  });
}

export type BasicOptions = {
  /** Default: any name, which is recorded in the audit log. */
  user?: string;
  password: string;
  role?: Role;
  payloads?: boolean;
};

/**
 * Admits requests with the password, by HTTP Basic: browsers prompt for it. Use it over TLS only.
 *
 * @throws {InvalidOptionError} The password is shorter than 16 characters.
 */
export function basic(options: BasicOptions | readonly BasicOptions[]): Authorize {
  const known = [options].flat().map((one) => ({
    user: one.user,
    digest: digestOf(requireSecret("basic", one.password)),
    access: accessOf(one),
  }));
  return withChallenge('Basic realm="Stint", charset="UTF-8"', (request) => {
    const sent = credentials(request, "basic");
    if (sent === undefined) return null;
    const text = Buffer.from(sent, "base64").toString("utf8");
    const colon = text.indexOf(":");
    if (colon === -1) return null;
    const user = text.slice(0, colon);
    const mine = known.filter((one) => one.user === undefined || one.user === user);
    const access = pick(mine, text.slice(colon + 1));
    return access === null ? null : { ...(user === "" ? {} : { user }), ...access };
  });
}

/** Tries each in turn; the first that returns a visitor decides. */
export function anyOf(...several: readonly Authorize[]): Authorize {
  const challenge = several.flatMap((one) => one.challenge ?? []).join(", ");
  return withChallenge(challenge, async (request, context) => {
    for (const one of several) {
      const access = await one(request, context);
      if (access !== null && access !== undefined) return access;
    }
    return null;
  });
}

type Known = { readonly digest: Buffer; readonly access: Access };

/** Compares the digests of all secrets in constant time, which prevents timing attacks. */
function pick(known: readonly Known[], sent: string): Access | null {
  const digest = digestOf(sent);
  let found: Access | null = null;
  for (const one of known) {
    if (timingSafeEqual(one.digest, digest)) found ??= one.access;
  }
  return found;
}

function digestOf(secret: string): Buffer {
  return createHash("sha256").update(secret).digest();
}

function credentials(request: Request, scheme: string): string | undefined {
  const header = request.headers.get("authorization");
  const match = /^(\w{1,16}) +(\S{1,4096})$/.exec(header ?? "");
  return match?.[1]?.toLowerCase() === scheme ? match[2] : undefined;
}

function accessOf({ user, role = "admin", payloads }: Omit<Token, "token">): Access {
  return {
    role,
    ...(user === undefined ? {} : { user }),
    ...(payloads === undefined ? {} : { payloads }),
  };
}

function requireSecret(what: string, secret: unknown): string {
  if (typeof secret === "string" && secret.length >= shortest) return secret;
  throw new InvalidOptionError(
    what,
    `needs a secret of at least ${shortest} characters, because shorter ones can be guessed. ` +
      "Make one with `openssl rand -base64 32`",
  );
}

function withChallenge(challenge: string, authorize: Authorize): Authorize {
  return Object.assign((...args: Parameters<Authorize>) => authorize(...args), { challenge });
}
