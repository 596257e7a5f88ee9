/** The busy night with names of the maximum length: 128 characters without a space. */
import { fakeDetail } from "../../support/fake.ts";
import { busyNight, jobRows } from "./busy-night.ts";

const most = 128;

/** The name, padded to the maximum length. */
export function long(name: string): string {
  return `${name}-${"abcdefghij".repeat(13)}`.slice(0, most);
}

const names = new Set([
  "notification",
  "inference",
  "webhook/partner-eu",
  "embedding",
  "default",
  "send-receipt",
  "send-digest",
  "explain-response",
  "deliver-webhook",
  "embed-chapter",
  "close-day",
  "rebuild-index",
  "notification-1",
  "inference-2",
  "worker-host-1.internal",
  "school-12",
  "night",
  "nightly-audit",
  "poll/feed-eu",
  "billing",
  "mail-relay",
  "partner-api",
]);

/** Replaces every text that is a name, also as an object key. */
function lengthen(value: unknown): unknown {
  if (typeof value === "string") return names.has(value) ? long(value) : value;
  if (typeof value !== "object" || value === null || value instanceof Date) return value;
  if (Array.isArray(value)) return value.map(lengthen);
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      names.has(key) && key !== "default" ? long(key) : key,
      lengthen(inner),
    ]),
  );
}

export const longNames = {
  ...Object.fromEntries(
    Object.entries(busyNight).map(([name, response]) => [
      name,
      (...given: readonly unknown[]) =>
        lengthen(
          typeof response === "function"
            ? (response as (...of: readonly unknown[]) => unknown)(...given)
            : response,
        ),
    ]),
  ),
  job: () =>
    fakeDetail({
      ...(jobRows()[5] as object),
      kind: long("send-receipt"),
      queue: long("notification"),
      key: long("key"),
      tenant: long("school-12"),
      tags: [long("night"), long("day")],
      worker: long("notification-1"),
      reason: long("reason"),
    }),
};
