import { expect, test } from "vitest";
import { wholePage } from "#stint/cli/whole-page.js";
import type { JobPage, JobRow } from "#stint/inspect/types.js";
import type { Line } from "#stint/cli/output.js";

const row = (id: string): JobRow => ({ id }) as JobRow;
const text = ({ strings, pieces }: Line): string =>
  strings.map((part, at) => part + ((pieces[at] ?? "") as string)).join("");

function answering(pages: readonly JobPage[]) {
  const asked: unknown[] = [];
  const notes: string[] = [];
  return {
    asked,
    notes,
    out: { note: (line: Line) => void notes.push(text(line)) },
    inspector: {
      jobs: async (options: object) => {
        asked.push(options);
        return await Promise.resolve(pages[asked.length - 1] ?? { jobs: [], next: null, partial: false });
      },
    },
  };
}

const progress = { searched: 200_000, of: 3_000_000 };

test("a search continues past its budget until the page is full", async () => {
  const { out, inspector, asked, notes } = answering([
    { jobs: [], next: "c", partial: true, progress },
    { jobs: [row("1")], next: "b", partial: true, progress },
    { jobs: [row("2")], next: "a", partial: false },
  ]);
  const page = await wholePage(out, inspector, { tag: "x", limit: 2 });
  expect(page).toEqual({ jobs: [row("1"), row("2")], next: "a", partial: false });
  expect(asked).toEqual([
    { tag: "x", limit: 2 },
    { tag: "x", limit: 2, after: "c" },
    { tag: "x", limit: 1, after: "b" },
  ]);
  expect(notes).toEqual([
    "Searched 200,000 of about 3,000,000 jobs …",
    "Searched 400,000 of about 3,000,000 jobs …",
  ]);
});

test("an empty result is reported only after every job was searched", async () => {
  const { out, inspector, asked } = answering([
    { jobs: [], next: "b", partial: true, progress },
    { jobs: [], next: "a", partial: true, progress },
    { jobs: [], next: null, partial: false },
  ]);
  expect(await wholePage(out, inspector, { tag: "x" })).toEqual({ jobs: [], next: null, partial: false });
  expect(asked).toHaveLength(3);
});

test("a stop signal ends a search with the results so far", async () => {
  const { out, inspector } = answering([
    { jobs: [row("1")], next: "b", partial: true, progress },
    { jobs: [], next: "a", partial: true, progress },
  ]);
  const note = out.note;
  let seen = 0;
  out.note = (line) => {
    note(line);
    if (++seen === 1) process.emit("SIGINT");
  };
  expect(await wholePage(out, inspector, { tag: "x" })).toMatchObject({
    jobs: [row("1")],
    next: "a",
    partial: true,
  });
});
