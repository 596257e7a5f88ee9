import { clock } from "../format.ts";
import { useUrl } from "../url.ts";
import { Button } from "./button.tsx";

/** A span of time that a drag over a chart selected, in seconds since 1970. */
export type Zoom = { readonly from: number; readonly to: number };

/** A time in the URL, such as `2026-11-16T07:05:10Z`; undefined if invalid. */
const moment = (raw: string | undefined): number | undefined => {
  const ms = Date.parse(raw ?? "");
  return Number.isNaN(ms) ? undefined : ms / 1_000;
};

/** The URL parameters of charts. */
export const zoomSearch = { from: moment, to: moment };

/** The span in the URL: a link shows the same span, and Back shows the previous one. */
export function useZoom(): [Zoom | undefined, (zoom: Zoom | undefined) => void] {
  const [{ from, to }, set] = useUrl(zoomSearch);
  const zoom = from !== undefined && to !== undefined && from < to ? { from, to } : undefined;
  return [zoom, (next) => set({ from: print(next?.from), to: print(next?.to) })];
}

const print = (seconds: number | undefined) =>
  seconds === undefined ? undefined : new Date(Math.round(seconds) * 1_000).toISOString().replace(".000", "");

/** Shows the zoomed span, and a button to reset it. */
export function ZoomNote({
  zoom,
  setZoom,
  whole,
}: {
  readonly zoom: Zoom | undefined;
  readonly setZoom: (zoom: Zoom | undefined) => void;
  /** Shown while nothing is zoomed. */
  readonly whole: string;
}) {
  if (zoom === undefined) return whole;
  return (
    <>
      {clock(zoom.from * 1_000)} to {clock(zoom.to * 1_000)}{" "}
      <Button small look="quiet" onClick={() => setZoom(undefined)}>
        Reset zoom
      </Button>
    </>
  );
}
