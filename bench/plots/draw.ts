import type { Bar, Chart, Group, Panel } from "./chart.ts";
import { colourOf } from "./colours.ts";
import { scaleOf, type Scale } from "./scale.ts";
import { element, line, rectangle, text } from "./svg.ts";

const width = 880;
const margin = 24;
/** The left edge of the bars and the length of the longest, which leaves room for its value. */
const left = 250;
const length = 480;
const barHeight = 15;
const barStep = 20;
const grey = "#59636e";

export type Legend = { readonly date: string; readonly footer: readonly string[] };

/** A chart as SVG on a light card, so that it is readable on a dark page. */
export function draw({ title, panels }: Chart, { date, footer }: Legend): string {
  const parts: string[] = [
    text(margin, 38, title, { size: 19, bold: true }),
    text(width - margin, 38, date, { size: 13, fill: grey, anchor: "end" }),
  ];
  let y = 58;
  for (const panel of panels.filter(({ groups }) => groups.length > 0)) {
    const drawn = drawPanel(panel, y);
    parts.push(drawn.svg);
    y = drawn.bottom;
  }
  for (const words of footer) parts.push(text(margin, (y += 17), words, { size: 11, fill: grey }));
  const height = y + 20;
  const card = rectangle(0.5, 0.5, width - 1, height - 1, { rx: 8, fill: "#ffffff", stroke: "#d1d9e0" });
  return `${element(
    "svg",
    {
      xmlns: "http://www.w3.org/2000/svg",
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "img",
      "aria-label": title,
      "font-family": "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif",
    },
    [card, ...parts].join("\n"),
  )}\n`;
}

type Drawn = { svg: string; bottom: number };

function drawPanel(panel: Panel, top: number): Drawn {
  const scale = scaleOf(panel);
  const parts = [text(margin, top + 18, panel.heading, { size: 13, fill: grey })];
  let y = top + 28;
  for (const group of panel.groups) {
    const drawn = drawGroup(group, y, scale);
    parts.push(drawn.svg);
    y = drawn.bottom;
  }
  // Drawn first, so that bars cover it.
  parts.unshift(drawAxis(panel, scale, top + 30, y));
  return { svg: parts.join("\n"), bottom: y + 30 };
}

function drawAxis(panel: Panel, scale: Scale, top: number, bottom: number): string {
  const ticks = scale.ticks.flatMap((tick) => {
    const x = left + scale.at(tick) * length;
    return [
      line(x, top, x, bottom, { stroke: "#e6eaef" }),
      text(x, bottom + 14, tickText(tick), { size: 10, fill: grey, anchor: "middle" }),
    ];
  });
  if (panel.line === undefined) return ticks.join("\n");
  const x = left + scale.at(panel.line) * length;
  return [...ticks, line(x, top, x, bottom, { stroke: "#1f2328", "stroke-dasharray": "3 3" })].join("\n");
}

function drawGroup({ heading, bars }: Group, top: number, scale: Scale): Drawn {
  const parts = [text(margin, top + 18, heading, { bold: true })];
  let y = top + 26;
  for (const bar of bars) {
    parts.push(drawBar(bar, y, scale));
    y += barStep;
  }
  return { svg: parts.join("\n"), bottom: y + 4 };
}

function drawBar(
  { label, value, min, max, system, pale, text: words }: Bar,
  y: number,
  scale: Scale,
): string {
  const end = left + scale.at(value) * length;
  const middle = y + barHeight / 2;
  const whisker = min < max;
  return [
    text(left - 8, y + 12, label, { anchor: "end", bold: system === "stint" }),
    // A value near zero still gets a visible bar.
    rectangle(left, y, Math.max(end - left, 1.5), barHeight, {
      fill: colourOf(system),
      "fill-opacity": pale ? 0.5 : 1,
      rx: 2,
    }),
    ...(whisker
      ? [
          line(left + scale.at(min) * length, middle, left + scale.at(max) * length, middle, {
            stroke: "#1f2328",
            "stroke-opacity": 0.7,
          }),
        ]
      : []),
    text(Math.max(end, whisker ? left + scale.at(max) * length : 0) + 6, y + 12, words, { halo: true }),
  ].join("\n");
}

function tickText(tick: number): string {
  return tick.toLocaleString("en", { maximumSignificantDigits: 3 });
}
