import type { Failure } from "../../model/failure.ts";
import { plainNames } from "../context-names.ts";
import type { HandlerContext } from "../handler.ts";

/** An error on its way to the other side. Classes cannot be sent; what decides about a job is. */
export type SentError = {
  readonly failure: Failure;
  readonly type: "permanent" | "rate-limited" | "suspended" | "other";
  readonly retryAfter?: string | number | Date;
  /** The number of an error that the worker has sent: the handler threw it on. */
  readonly ref?: number;
};

export type CallResult = { readonly value: unknown } | { readonly error: SentError };

/** The properties of a handler's context that are plain values. */
export const valueNames = [...plainNames, "schedule"] as const satisfies readonly (keyof HandlerContext)[];

export type ContextValues = Pick<HandlerContext, (typeof valueNames)[number]>;

/** Calls of the context that return a result. */
export const callNames = [
  "step",
  "sleep",
  "waitForSignal",
  "checkpoint",
  "lastCheckpoint",
  "results",
  "again",
] as const satisfies readonly (keyof HandlerContext)[];

export type CallName = (typeof callNames)[number];

/** Calls of the context that have none. `logger` takes a level, fields and a message. */
export const reportNames = [
  "progress",
  "log",
  "extend",
  "logger",
] as const satisfies readonly (keyof HandlerContext)[];

export type ReportName = (typeof reportNames)[number];

/** From the worker to the thread or process of a handler. `attempt` counts the attempts that it has run. */
export type ToChild =
  | { type: "load"; token: string; file: string; kind: string; parentPid: number }
  | {
      type: "run";
      attempt: number;
      context: ContextValues;
      timeoutMs: number;
      maxTimeoutMs: number | undefined;
    }
  | { type: "abort"; attempt: number; reason: SentError }
  | { type: "reply"; attempt: number; call: number; result: CallResult }
  /** Run the function of this step. */
  | { type: "work"; attempt: number; call: number };

/** What the handler returned or threw. An outcome carries a symbol, which cannot be sent. */
export type HandlerEnd = CallResult | { readonly outcome: unknown } | { readonly unsendable: string };

export type ChildMessage =
  | { type: "loaded" }
  | { type: "began"; attempt: number }
  | { type: "refused"; rule: string; error?: SentError }
  | { type: "call"; attempt: number; call: number; name: CallName; args: readonly unknown[] }
  | { type: "report"; attempt: number; name: ReportName; args: readonly unknown[] }
  | { type: "worked"; attempt: number; call: number; result: CallResult }
  | { type: "ended"; attempt: number; end: HandlerEnd; memoryBytes: number };

/** The token is known to Stint's own code only: other code of the handler can send messages, too, and they are ignored. */
export type FromChild = ChildMessage & { token: string };

/** A message of the child, if it is one. */
export function readMessage(raw: unknown, token: string): ChildMessage | undefined {
  if (typeof raw !== "object" || raw === null) return undefined;
  const message = raw as Record<string, unknown>;
  if (message["token"] !== token) return undefined;
  const numbered = Number.isInteger(message["attempt"]);
  const called = numbered && Number.isInteger(message["call"]);
  switch (message["type"]) {
    case "loaded":
    case "refused":
      return message as ChildMessage;
    case "call":
      return called && isOneOf(callNames, message["name"]) && Array.isArray(message["args"])
        ? (message as ChildMessage)
        : undefined;
    case "report":
      return numbered && isOneOf(reportNames, message["name"]) && Array.isArray(message["args"])
        ? (message as ChildMessage)
        : undefined;
    case "began":
      return numbered ? (message as ChildMessage) : undefined;
    case "worked":
      return called && isObject(message["result"]) ? (message as ChildMessage) : undefined;
    case "ended":
      return numbered && isObject(message["end"]) && typeof message["memoryBytes"] === "number"
        ? (message as ChildMessage)
        : undefined;
    default:
      return undefined;
  }
}

function isOneOf(names: readonly string[], value: unknown): boolean {
  return typeof value === "string" && names.includes(value);
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}
