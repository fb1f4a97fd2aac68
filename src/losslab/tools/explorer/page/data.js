"use strict";
// Data of the page: an index of all cells, and the series of each run, compressed separately.
const lab = { index: null, blobs: [], loaded: new Map() };

// Decompress text and parse its JSON, asynchronously.
lab.inflate = async (text) => {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
};

lab.open = async () => {
  lab.index = await lab.inflate(document.getElementById("index").textContent.trim());
  lab.blobs = document.getElementById("runs").textContent.trim().split("\n");
  const defaults = Object.fromEntries(lab.index.axes.map((axis) => [axis.name, axis.default]));
  for (const cell of lab.index.cells) cell.condition = { ...defaults, ...cell.condition };
  const varying = lab.varyingAxes();
  const words = lab.index.cells.map((cell) => lab.describe(cell, varying.get(cell.study)));
  const names = lab.index.cells.map((cell, at) => `${cell.study}/${cell.block}/${words[at]}`);
  for (const [at, cell] of lab.index.cells.entries()) {
    const alone = names.indexOf(names[at]) === names.lastIndexOf(names[at]);
    cell.words = alone ? words[at] : `${words[at]} (${cell.cell})`;
    cell.result = lab.result(cell);
    cell.invalid = cell.runs.filter((run) => !run.valid).length;
  }
};

// Read a run's series: lines with a value for each of the common times, or null if the page does not have it.
lab.series = (cell, number) => {
  const place = cell.runs[number].series;
  if (place < 0) return Promise.resolve(null);
  if (!lab.loaded.has(place)) {
    lab.loaded.set(place, lab.inflate(lab.blobs[place]).then(lab.unpack));
  }
  return lab.loaded.get(place);
};

// Place two values in each time slice, at a quarter and three quarters of it.
lab.unpack = (packed) => {
  const slices = (packed.lines[0]?.v.length ?? 0) / 2;
  const width_s = packed.end_s / slices;
  const x = [];
  for (let slice = 0; slice < slices; slice += 1) {
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
  return { ...packed, sha256: [packed.sha256], slices, x, lines };
};

// Format a number, without an exponent if possible.
lab.number = (value, digits = 4) => (value === null || value === undefined ? "–" : String(Number(value.toPrecision(digits))));

lab.units = [["_mbit", "Mbit/s"], ["_ms", "ms"], ["_s", "s"], ["_percent", "%"], ["_packets", "packets"]];

// Get the name and unit of a key such as `goodput_mbit`.
lab.key = (key) => {
  const found = lab.units.find(([ending]) => key.endsWith(ending));
  const name = (found ? key.slice(0, -found[0].length) : key).replaceAll("_", " ");
  return { name: name.replace(/\brtt\b/, "RTT"), unit: found ? found[1] : "" };
};

lab.algorithm = (name) => lab.index.algorithms[name] ?? { label: name, colour: "#666666" };

// Get a cell's congestion control: the kernel's algorithm, or a scheme over UDP.
lab.controlName = ({ condition }) => (condition.app === "datagram" ? condition.scheme.split(",")[0] : condition.algorithm);
lab.controlOf = (cell) => lab.algorithm(lab.controlName(cell));

// Find, for each study, the axes in which its cells differ.
lab.varyingAxes = () => {
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

// Describe a cell: its algorithm, loss and RTT, and the axes in which the study's cells differ.
const ALWAYS = ["algorithm", "loss_percent", "rtt_ms"];
lab.describe = (cell, varying) => {
  const parts = [];
  for (const axis of lab.index.axes) {
    const value = cell.condition[axis.name];
    if (!ALWAYS.includes(axis.name) && !varying.has(axis.name)) continue;
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

// Compute the means of a cell's main metric and its retransmissions over valid runs.
lab.result = (cell) => {
  const valid = cell.runs.filter((run) => run.valid).map((run) => run.summary);
  const metric = lab.index.metrics.find((name) => valid.some((summary) => name in summary));
  const of = (name) => valid.map((summary) => summary[name]).filter((value) => value !== undefined);
  return { n: valid.length, metric, mean: metric ? lab.mean(of(metric)) : null, retransmits: lab.mean(of("retransmits")) };
};

// Number in place of a replicate's: the mean of all.
lab.MEAN = "mean";

// Choose what to show of a cell: the mean of its replicates, if it has several.
lab.meanRun = (cell) => (lab.averaged(cell).length > 1 ? lab.MEAN : lab.firstRun(cell));

// List the numbers of the replicates of which the mean is drawn.
lab.averaged = (cell) => [...cell.runs.keys()].filter((at) => cell.runs[at].valid && cell.runs[at].series >= 0);

// Average the two values of a slice; null without any.
const sliceMean = (values, slice) => lab.mean(values.slice(2 * slice, 2 * slice + 2).filter((value) => value !== null));

// Compute the mean over replicates, and their lowest and highest value, in each time slice.
lab.average = async (cell) => {
  const runs = await Promise.all(lab.averaged(cell).map((at) => lab.series(cell, at)));
  // The mean ends with the shortest run, so that it is always a mean of all.
  const end_s = Math.min(...runs.map((run) => run.end_s));
  const count = Math.min(...runs.map((run) => run.slices));
  const x = [...Array(count).keys()].map((slice) => ((slice + 0.5) / count) * end_s);
  const lines = runs[0].lines.map((line) => {
    const alike = runs.map((run) => [run, run.lines.find((each) =>
      each.panel === line.panel && each.name === line.name && each.flow === line.flow)]).filter(([, each]) => each);
    // Runs end at slightly different times, so their slices differ slightly in length.
    const at = x.map((t_s) => alike
      .map(([run, each]) => sliceMean(each.values, Math.floor((t_s / run.end_s) * run.slices)))
      .filter((value) => value !== null));
    return {
      ...line,
      values: at.map(lab.mean),
      low: at.map((values) => (values.length ? Math.min(...values) : null)),
      high: at.map((values) => (values.length ? Math.max(...values) : null)),
    };
  });
  const causes = [...new Set(runs.flatMap((run) => Object.keys(run.limits)))];
  const shares = causes.map((name) => [name, lab.mean(runs.map((run) => run.limits[name] ?? 0))]);
  const limits = Object.fromEntries(shares.sort(([, one], [, other]) => other - one));
  return { end_s, slices: count, x, lines, limits, warnings: [], sha256: runs.flatMap((run) => run.sha256) };
};

lab.find = (study, name) => lab.index.cells.find((cell) => cell.study === study && cell.cell === name);

// Choose the run to show first: the first valid run, or the first run.
lab.firstRun = (cell) => Math.max(0, cell.runs.findIndex((run) => run.valid));

lab.make = (tag, attributes = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), attributes);
  element.append(...children);
  return element;
};
