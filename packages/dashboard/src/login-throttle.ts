/**
 * Slows down whoever tries secrets: after some wrong ones, an address has to wait between two, and so have all together, since
 * addresses are cheap. Nobody is told whether a secret is right while they wait, or waiting would cost them nothing.
 *
 * A browser that was let in gets a cookie, which lets it in nowhere: by it, the secret that was right is told apart from those
 * that are tried, and does not wait for them, be it behind the same proxy. It is good for that secret alone: who knows one that
 * may only look has won nothing for guessing another.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { Problem } from "./problem.ts";
import { Rate } from "./rate.ts";

/** Wrong secrets that are borne at once, and how fast more are. */
const ofOne = { burst: 10, perSecond: 0.2 };
const ofAll = { burst: 200, perSecond: 2 };
/** Tries that are being decided at the same moment: none of them has been charged yet. */
const mostOpen = 100;

const cookieName = "stint-known";
const cookie = new RegExp(String.raw`(?:^|;\s*)${cookieName}=([\w-]{43})(?:;|$)`);

/** A request that brings a secret, and where it came from. `known`: this very secret was right before. */
export type LoginAttempt = { readonly known: boolean; readonly address: string };

export class LoginThrottle {
  /** Of this process: another one, or the same after a restart, hands out a new cookie. */
  readonly #key = randomBytes(32);
  readonly #byOne: Rate;
  readonly #byAll: Rate;
  #open = 0;

  constructor(now?: () => number) {
    this.#byOne = new Rate(ofOne, now);
    this.#byAll = new Rate(ofAll, now);
  }

  /**
   * Undefined: it brings none. What is begun must be ended.
   *
   * @throws {Problem} It must wait.
   */
  begin(request: Request, from: string): LoginAttempt | undefined {
    if (!request.headers.has("authorization")) return undefined;
    // A proxy's header may hold anything, and thousands of these are kept.
    const tried = { known: this.#knows(request), address: from.slice(0, 64) };
    if (tried.known) return tried;
    const wait = Math.max(
      hasAddress(tried) ? this.#byOne.wait(tried.address) : 0,
      this.#byAll.wait(""),
      this.#open >= mostOpen ? 1 : 0,
    );
    if (wait > 0) {
      throw new Problem(429, "TOO_MANY_GUESSES", "Too many wrong secrets were sent.", {
        hint: `Try again in ${wait} s.`,
        headers: { "retry-after": String(wait) },
      });
    }
    this.#open += 1;
    return tried;
  }

  /** It is decided. */
  end(tried: LoginAttempt, right: boolean): void {
    if (tried.known) return;
    this.#open -= 1;
    if (right) return;
    // Those that came at the same moment are all charged, though none of them has waited.
    if (hasAddress(tried)) this.#byOne.charge(tried.address);
    this.#byAll.charge("");
  }

  /** The cookie for whoever was let in. Undefined: it has one. */
  cookieFor({ known }: LoginAttempt, request: Request, base: string): string | undefined {
    if (known) return undefined;
    const secure = new URL(request.url).protocol === "https:" ? "; Secure" : "";
    const value = this.#sign(request).toString("base64url");
    // A path may hold what would end it here, and begin an attribute of somebody's choice.
    const path = `${base.replaceAll(";", "%3B")}/`;
    return `${cookieName}=${value}; Path=${path}; Max-Age=2592000; HttpOnly; SameSite=Strict${secure}`;
  }

  #knows(request: Request): boolean {
    const [, signature = ""] = cookie.exec(request.headers.get("cookie") ?? "") ?? [];
    const given = Buffer.from(signature, "base64url");
    const right = this.#sign(request);
    return given.length === right.length && timingSafeEqual(given, right);
  }

  #sign(request: Request): Buffer {
    return createHmac("sha256", this.#key)
      .update(request.headers.get("authorization") ?? "")
      .digest();
  }
}

/** `dashboard.fetch` is told none. One for all would be a stranger's way to lock out everybody. */
function hasAddress({ address }: LoginAttempt): boolean {
  return address !== "";
}
