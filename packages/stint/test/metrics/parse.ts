/** One metric of the text format. */
export type Family = {
  name: string;
  type: string;
  help: string;
  samples: { name: string; labels: Record<string, string>; value: number }[];
};

/**
 * Read the text format 0.0.4 as strictly as its description allows: HELP and TYPE once each and before the samples, samples of
 * one metric together, no series twice, escapes only where there are any, histograms whole and cumulative.
 */
export function parse(text: string): Map<string, Family> {
  const families = new Map<string, Family>();
  const series = new Set<string>();
  if (text !== "" && !text.endsWith("\n")) throw new Error("the last line does not end");
  let current: Family | undefined;
  for (const line of text.split("\n").slice(0, -1)) {
    const help = /^# HELP ([a-zA-Z_:][\w:]*) (.*)$/.exec(line);
    const type = /^# TYPE ([a-zA-Z_:][\w:]*) (counter|gauge|histogram)$/.exec(line);
    if (help !== null) {
      const [, name = "", words = ""] = help;
      if (families.has(name)) throw new Error(`HELP of ${name} comes twice`);
      current = { name, type: "", help: unescape(words, /\\(?![\\n])/), samples: [] };
      families.set(name, current);
    } else if (type !== null) {
      if (current?.name !== type[1]) throw new Error(`TYPE of ${type[1]} does not follow its HELP`);
      if (current?.type !== "") throw new Error(`TYPE of ${type[1]} comes twice`);
      current.type = type[2] ?? "";
    } else {
      const sample = parseSample(line);
      if (current === undefined || current.type === "") throw new Error(`${line}: before its TYPE`);
      const allowed =
        current.type === "histogram"
          ? ["_bucket", "_sum", "_count"].map((end) => current!.name + end)
          : [current.name];
      if (!allowed.includes(sample.name)) throw new Error(`${line}: stands among ${current.name}`);
      const key = `${sample.name}${keyOf(sample.labels)}`;
      if (series.has(key)) throw new Error(`${line}: comes twice`);
      series.add(key);
      current.samples.push(sample);
    }
  }
  for (const family of families.values()) {
    if (family.samples.length === 0) throw new Error(`${family.name} has no samples`);
    if (family.type === "histogram") checkHistogram(family);
  }
  return families;
}

function parseSample(line: string): Family["samples"][number] {
  const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/s.exec(line);
  if (match === null) throw new Error(`${line}: is no sample`);
  const [, name = "", inside, number = ""] = match;
  const labels: Record<string, string> = {};
  let rest = inside ?? "";
  if (inside === "") throw new Error(`${line}: has empty braces`);
  while (rest !== "") {
    const label = /^([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"(,(?=.)|$)/s.exec(rest);
    if (label === null) throw new Error(`${line}: labels are wrong from ${rest}`);
    const [, key = "", text = ""] = label;
    if (Object.hasOwn(labels, key)) throw new Error(`${line}: label ${key} comes twice`);
    labels[key] = unescape(text, /\\(?![\\n"])/);
    rest = rest.slice(label[0].length);
  }
  const value = number === "+Inf" ? Infinity : number === "-Inf" ? -Infinity : Number(number);
  if (Number.isNaN(value) && number !== "NaN") throw new Error(`${line}: ${number} is no number`);
  return { name, labels, value };
}

function keyOf(labels: Record<string, string>): string {
  return JSON.stringify(Object.entries(labels).toSorted(([a], [b]) => a.localeCompare(b)));
}

function unescape(text: string, wrong: RegExp): string {
  if (wrong.test(text.replaceAll("\\\\", ""))) throw new Error(`${text}: has an escape that does not exist`);
  return text.replaceAll(/\\(.)/g, (_all, one: string) => (one === "n" ? "\n" : one));
}

function checkHistogram({ name, samples }: Family): void {
  const groups = new Map<string, typeof samples>();
  for (const sample of samples) {
    const { le: _le, ...labels } = sample.labels;
    const key = keyOf(labels);
    groups.set(key, [...(groups.get(key) ?? []), sample]);
  }
  for (const [key, group] of groups) {
    const buckets = group.filter((sample) => sample.name === `${name}_bucket`);
    const edges = buckets.map(({ labels }) => (labels["le"] === "+Inf" ? Infinity : Number(labels["le"])));
    const counts = buckets.map(({ value }) => value);
    const rises = (values: number[], strictly: boolean): boolean =>
      values.every((value, index) => {
        const before = values[index - 1] ?? -Infinity;
        return strictly ? value > before : value >= before;
      });
    if (edges.at(-1) !== Infinity) throw new Error(`${name} ${key}: has no +Inf`);
    if (!rises(edges, true)) throw new Error(`${name} ${key}: buckets are out of order`);
    if (!rises(counts, false)) throw new Error(`${name} ${key}: is not cumulative`);
    const one = (end: string): number => {
      const found = group.filter((sample) => sample.name === name + end);
      if (found.length !== 1) throw new Error(`${name} ${key}: has ${found.length} ${end}`);
      return found[0]!.value;
    };
    one("_sum");
    if (one("_count") !== counts.at(-1)) throw new Error(`${name} ${key}: _count is not its last bucket`);
  }
}
