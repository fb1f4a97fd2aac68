"use strict";
// What the page holds: an index of all cells, and each run's series, compressed one by one.
const lab = { index: null, blobs: [], loaded: new Map() };

// A promise of the JSON behind compressed text.
lab.inflate = async (text) => {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
};

lab.open = async () => {
  lab.index = await lab.inflate(document.getElementById("index").textContent.trim());
  lab.blobs = document.getElementById("runs").textContent.trim().split("\n");
  const telling = lab.telling();
  const words = lab.index.cells.map((cell) => lab.describe(cell, telling.get(cell.study)));
  const names = lab.index.cells.map((cell, at) => `${cell.study}/${cell.block}/${words[at]}`);
  for (const [at, cell] of lab.index.cells.entries()) {
    const alone = names.indexOf(names[at]) === names.lastIndexOf(names[at]);
    cell.words = alone ? words[at] : `${words[at]} (${cell.cell})`;
    cell.result = lab.result(cell);
    cell.invalid = cell.runs.filter((run) => !run.valid).length;
  }
};

// A run's series: lines with a value for each of the common times, or null where it was not drawn.
lab.series = (cell, number) => {
  const place = cell.runs[number].series;
  if (place < 0) return Promise.resolve(null);
  if (!lab.loaded.has(place)) {
    lab.loaded.set(place, lab.inflate(lab.blobs[place]).then(lab.unpack));
  }
  return lab.loaded.get(place);
};

// Two values per slice of time, a quarter into it and a quarter before its end.
lab.unpack = (packed) => {
  const width_s = packed.end_s / lab.index.slices;
  const x = [];
  for (let slice = 0; slice < lab.index.slices; slice += 1) {
    x.push((slice + 0.25) * width_s, (slice + 0.75) * width_s);
  }
  const lines = packed.lines.map((line) => {
    let step = 0;
    const values = line.v.map((difference) => {
      if (difference === null) return null;
      step += difference;
      return (step / lab.index.steps) * line.top;
    });
    return { panel: line.p, name: line.n, flow: line.f, values };
  });
  return { end_s: packed.end_s, x, lines };
};

// Numbers as a reader compares them, without an exponent where none is needed.
lab.number = (value, digits = 4) => (value === null || value === undefined ? "–" : String(Number(value.toPrecision(digits))));

lab.units = [["_mbit", "Mbit/s"], ["_ms", "ms"], ["_s", "s"], ["_percent", "%"], ["_packets", "packets"]];

// The name and the unit behind a key such as `goodput_mbit`.
lab.key = (key) => {
  const found = lab.units.find(([ending]) => key.endsWith(ending));
  const name = (found ? key.slice(0, -found[0].length) : key).replaceAll("_", " ");
  return { name: name.replace(/\brtt\b/, "RTT"), unit: found ? found[1] : "" };
};

lab.algorithm = (name) => lab.index.algorithms[name] ?? { label: name, colour: "#666666" };

// What controls a cell's congestion: the kernel's algorithm, or a scheme over datagrams.
lab.controlOf = ({ condition }) => lab.algorithm(condition.app === "datagram" ? condition.scheme.split(",")[0] : condition.algorithm);

// By study, the axes in which its cells differ.
lab.telling = () => {
  const seen = new Map();
  for (const { study, condition } of lab.index.cells) {
    if (!seen.has(study)) seen.set(study, new Map());
    for (const [name, value] of Object.entries(condition)) {
      const values = seen.get(study);
      values.set(name, (values.get(name) ?? new Set()).add(value));
    }
  }
  const several = (values) => new Set([...values].filter(([, each]) => each.size > 1).map(([name]) => name));
  return new Map([...seen].map(([study, values]) => [study, several(values)]));
};

// What a cell is called: its algorithm, loss and RTT, and what tells it from others of its study.
const ALWAYS = ["algorithm", "loss_percent", "rtt_ms"];
lab.describe = (cell, telling) => {
  const parts = [];
  for (const axis of lab.index.axes) {
    const value = cell.condition[axis.name];
    if (!ALWAYS.includes(axis.name) && !telling.has(axis.name)) continue;
    if (axis.name === "algorithm") parts.push(cell.condition.app === "datagram" ? "" : lab.controlOf(cell).label);
    else if (axis.name === "duration_s" || axis.name === "warmup_s" || value === undefined) continue;
    else if (axis.name === "loss_percent" || axis.name === "rtt_ms" || value !== axis.default) {
      const { name, unit } = lab.key(axis.name);
      if (axis.name === "scheme" || axis.name === "app") parts.push(String(value));
      else if (typeof value === "number") parts.push(`${name} ${lab.number(value)} ${unit}`.trim());
      else parts.push(axis.name === "path" ? value : `${name} ${value}`);
    }
  }
  return parts.filter(Boolean).join(", ");
};

lab.mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);

// The mean over valid runs of what a cell is judged by, and of its retransmissions.
lab.result = (cell) => {
  const valid = cell.runs.filter((run) => run.valid).map((run) => run.summary);
  const metric = lab.index.metrics.find((name) => valid.some((summary) => name in summary));
  const of = (name) => valid.map((summary) => summary[name]).filter((value) => value !== undefined);
  return { n: valid.length, metric, mean: metric ? lab.mean(of(metric)) : null, retransmits: lab.mean(of("retransmits")) };
};

lab.find = (study, name) => lab.index.cells.find((cell) => cell.study === study && cell.cell === name);

// The run that is shown first: the first valid one, or the first.
lab.firstRun = (cell) => Math.max(0, cell.runs.findIndex((run) => run.valid));

lab.make = (tag, attributes = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), attributes);
  element.append(...children);
  return element;
};
