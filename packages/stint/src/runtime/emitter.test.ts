import { expect, test, vi } from "vitest";
import { Emitter } from "./emitter.ts";

type Events = { started: { at: number }; stopped: undefined };

test("listeners get the payload in the order they were added", () => {
  const seen: string[] = [];
  const emitter = new Emitter<Events>(() => {});
  emitter.on("started", ({ at }) => seen.push(`first ${at}`));
  emitter.on("started", ({ at }) => seen.push(`second ${at}`));
  emitter.emit("started", { at: 5 });
  emitter.emit("stopped", undefined);

  expect(seen).toEqual(["first 5", "second 5"]);
});

test("a removed listener is not called again; its duplicate is", () => {
  const listener = vi.fn();
  const emitter = new Emitter<Events>(() => {});
  const off = emitter.on("started", listener);
  emitter.on("started", listener);
  off();
  off();
  emitter.emit("started", { at: 1 });

  expect(listener).toHaveBeenCalledOnce();
});

test("a listener that throws reaches neither the emitter nor the other listeners", () => {
  const error = new Error("bad listener");
  const onError = vi.fn();
  const after = vi.fn();
  const emitter = new Emitter<Events>(onError);
  emitter.on("started", () => {
    throw error;
  });
  emitter.on("started", after);

  expect(() => emitter.emit("started", { at: 1 })).not.toThrow();
  expect(onError).toHaveBeenCalledExactlyOnceWith(error, "started");
  expect(after).toHaveBeenCalledOnce();
});

test("a listener that rejects is reported, for any kind of promise", async () => {
  const reported: unknown[] = [];
  const both = new Promise<void>((resolve) => {
    const emitter = new Emitter<Events>((error) => {
      if (reported.push(error) === 2) resolve();
    });
    emitter.on("stopped", () => Promise.reject(new Error("native")));
    emitter.on("stopped", () => ({
      // eslint-disable-next-line unicorn/no-thenable
      then: (_: unknown, reject: (error: Error) => void) => reject(new Error("other")),
    }));
    emitter.emit("stopped", undefined);
  });

  await both;
  expect(reported).toEqual(expect.arrayContaining([new Error("native"), new Error("other")]));
});

test("an onError that throws is swallowed", () => {
  const emitter = new Emitter<Events>(() => {
    throw new Error("again");
  });
  emitter.on("stopped", () => {
    throw new Error("first");
  });
  expect(() => emitter.emit("stopped", undefined)).not.toThrow();
});

test("a listener added while emitting waits for the next event", () => {
  const late = vi.fn();
  const emitter = new Emitter<Events>(() => {});
  emitter.on("stopped", () => {
    emitter.on("stopped", late);
  });
  emitter.emit("stopped", undefined);
  expect(late).not.toHaveBeenCalled();
});
