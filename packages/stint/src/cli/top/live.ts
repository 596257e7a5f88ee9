import type { Inspector } from "../../inspect/types.ts";
import { Wakeable } from "../../runtime/sleep.ts";
import type { Output } from "../output.ts";
import { onStopSignals } from "../stop-signals.ts";
import { draw } from "./draw.ts";
import { take } from "./snapshot.ts";
import { takeTerminal } from "./terminal.ts";
import { firstView, press, type View } from "./view.ts";

export type LiveOptions = { out: Output; schema: string; everyMs: number };

/** Show the installation until the user quits. Reads at each interval, and when another screen needs other figures. */
export async function watch(inspector: Inspector, { out, schema, everyMs }: LiveOptions): Promise<void> {
  // Read before the terminal enters raw mode: an unreachable installation must end with a readable error.
  let snapshot = await take(inspector, firstView.screen);
  let asOf = firstView.screen;
  // Undefined: the user has quit.
  const now: { view: View | undefined } = { view: firstView };
  let rows: readonly string[] = [];
  let problem: string | undefined;
  let asked = new Wakeable();

  const show = (): void => {
    if (now.view === undefined) return;
    const size = terminal.size();
    const paper = { width: size.columns, dye: out.dye.bind(out) };
    const frame = draw(paper, snapshot, now.view, size, { schema, problem });
    rows = frame.rows;
    terminal.write(frame.lines);
  };
  const change = (next: View | undefined): void => {
    const before = now.view;
    now.view = next;
    // Draw at once: the pending read may take seconds.
    if (next === undefined) terminal.restore();
    // Also when resumed after a pause, because the figures are old.
    if (next === undefined || next.screen !== before?.screen || next.paused !== before.paused) asked.wake();
    show();
  };
  const terminal = takeTerminal({
    onKey: (key) => {
      if (now.view !== undefined) change(press(now.view, key, { rows }));
    },
    onResize: show,
  });
  const stopListening = onStopSignals(() => change(undefined));
  // The window was closed.
  const hungUp = (): void => change(undefined);
  process.on("SIGHUP", hungUp);

  try {
    show();
    while (now.view !== undefined) {
      await asked.wait(everyMs);
      asked = new Wakeable();
      const wanted = now.view;
      // A screen that was opened while paused still needs its figures once.
      if (wanted === undefined || (wanted.paused && wanted.screen === asOf)) continue;
      try {
        snapshot = await take(inspector, wanted.screen);
        asOf = wanted.screen;
        problem = undefined;
      } catch (error) {
        // Continues: `top` must stay open during an outage of the database.
        problem = error instanceof Error ? error.message : String(error);
      }
      show();
    }
  } finally {
    terminal.restore();
    stopListening();
    process.off("SIGHUP", hungUp);
  }
}
