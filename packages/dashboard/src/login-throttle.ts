/**
 * Slows down guessing of secrets. After some wrong ones an address must wait between two tries, and so must all addresses together,
 * because an attacker can have many. While a client must wait, right and wrong secrets get the same response.
 *
 * A browser that signed in gets a cookie that exempts its own secret from the wait. It grants no access and does not help with
 * other secrets. Without it, one client behind the same proxy could lock out every operator: docs/decisions/0026-login-throttle.md.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { Problem } from "./problem.ts";
import { Rate } from "./rate.ts";

/** Wrong secrets allowed at once, and how fast more are allowed. */
const ofOne = { burst: 10, perSecond: 0.2 };
const ofAll = { burst: 200, perSecond: 2 };
/** Most tries in `authorize` at the same time: none of them is charged yet. */
const mostOpen = 100;

const cookieName = "stint-known";
const cookie = new RegExp(String.raw`(?:^|;\s*)${cookieName}=([\w-]{43})(?:;|$)`);

/** A request with a secret, and its address. `known`: the cookie shows that this secret was right before. */
export type LoginAttempt = { readonly known: boolean; readonly address: string };

export class LoginThrottle {
  /** Random per process: a restart invalidates the cookies. */
  readonly #key = randomBytes(32);
  readonly #byOne: Rate;
  readonly #byAll: Rate;
  #open = 0;

  constructor(now?: () => number) {
    this.#byOne = new Rate(ofOne, now);
    this.#byAll = new Rate(ofAll, now);
  }

  /**
   * Undefined: the request has no secret. Every attempt that is begun must be ended.
   *
   * @throws {Problem} The client must wait.
   */
  begin(request: Request, from: string): LoginAttempt | undefined {
    if (!request.headers.has("authorization")) return undefined;
    // A proxy's header may have any length, and thousands of addresses are kept.
    const tried = { known: this.#knows(request), address: from.slice(0, 64) };
    if (tried.known) return tried;
    const wait = Math.max(
      hasAddress(tried) ? this.#byOne.wait(tried.address) : 0,
      this.#byAll.wait(""),
      this.#open >= mostOpen ? 1 : 0,
    );
    if (wait > 0) {
      throw new Problem(429, "TOO_MANY_GUESSES", "Too many wrong secrets.", {
        hint: `Try again in ${wait} s.`,
        headers: { "retry-after": String(wait) },
      });
    }
    this.#open += 1;
    return tried;
  }

  /** `authorize` has decided. */
  end(tried: LoginAttempt, right: boolean): void {
    if (tried.known) return;
    this.#open -= 1;
    if (right) return;
    // Parallel tries are all charged, though none of them has waited.
    if (hasAddress(tried)) this.#byOne.charge(tried.address);
    this.#byAll.charge("");
  }

  /** The cookie for a browser that signed in. Undefined: it has one. */
  cookieFor({ known }: LoginAttempt, request: Request, base: string): string | undefined {
    if (known) return undefined;
    const secure = new URL(request.url).protocol === "https:" ? "; Secure" : "";
    const value = this.#sign(request).toString("base64url");
    // A semicolon in the path would end it, and start an attribute chosen by the client.
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

/** `dashboard.fetch` knows no address. One shared address would let a single client lock out all others. */
function hasAddress({ address }: LoginAttempt): boolean {
  return address !== "";
}
