"use strict";
// Panels of a run on one time axis. All panels in both panes share the pointer and the time window.
lab.panes = [];
lab.window = null; // [from, to] in seconds; null: the whole run

const HEIGHT_PX = 130;
const MIN_SLICES = 4; // fewer show no curve
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

lab.dark = () => document.documentElement.dataset.theme === "dark";

// Get an algorithm's colour, lighter on a dark page.
lab.shade = ({ colour }) => {
  if (!lab.dark()) return colour;
  const part = (at) => Math.round(parseInt(colour.slice(at, at + 2), 16) * 0.6 + 255 * 0.4);
  return `rgb(${part(1)}, ${part(3)}, ${part(5)})`;
};

// Get the colour of a flow's algorithm; a second flow may have another. In an overlay, runs of the
// same algorithm differ: B is drawn in the colour of the text.
const flowColour = (pane, flow) => {
  const { competitor } = pane.cell.condition;
  const [first] = lab.panes;
  if (lab.overlaid() && pane !== first && lab.controlName(pane.cell) === lab.controlName(first.cell)) return css("--text");
  return lab.shade(flow === "competitor" && competitor !== "none" ? lab.algorithm(competitor) : lab.controlOf(pane.cell));
};

// Tell whether the runs of both panes are drawn in the same figures.
lab.overlaid = () => document.getElementById("overlay").checked && lab.panes.length === 2 && lab.panes.every((pane) => pane.run);

const DASHED = ["ssthresh", "smoothed by TCP", "dropped at the bottleneck"];
const dash = (line, cell) => {
  const first = ["", "first", "video"].includes(line.flow);
  const coloured = line.flow === "competitor" && cell.condition.competitor !== cell.condition.algorithm;
  if (DASHED.some((name) => line.name.startsWith(name))) return first || coloured ? [4, 3] : [6, 2, 1, 2];
  return first || coloured ? [] : [1, 2];
};

// Get the border of a line's marker in the legend.
const markerStyle = (dashes) => {
  if (!dashes || !dashes.length) return "solid";
  return dashes[0] > 1 ? "dashed" : "dotted";
};

lab.span = () => lab.window ?? [0, Math.max(1e-3, ...lab.panes.map((pane) => pane.run?.end_s ?? 0))];

// Compute the y range of a panel: from 0 to the largest value that both panes show.
lab.rangeOf = (panel) => {
  const [from, to] = lab.span();
  let most = 0;
  for (const pane of lab.panes) {
    // A line continues to the next slice outside.
    const margin = (pane.run?.end_s ?? 0) / (pane.run?.slices ?? 1);
    for (const line of pane.run?.lines ?? []) {
      if (line.panel !== panel) continue;
      (line.high ?? line.values).forEach((value, at) => {
        if (value > most && pane.run.x[at] >= from - margin && pane.run.x[at] <= to + margin) most = value;
      });
    }
  }
  return [0, most > 0 ? most * 1.06 : 1];
};

lab.zoom = (from, to) => {
  const end_s = Math.max(1e-3, ...lab.panes.map((pane) => pane.run?.end_s ?? 0));
  const slices = Math.max(MIN_SLICES, ...lab.panes.map((pane) => pane.run?.slices ?? 0));
  const width = Math.min(Math.max(to - from, (MIN_SLICES / slices) * end_s), end_s);
  const begin = Math.min(Math.max(from, 0), end_s - width);
  lab.window = width >= end_s ? null : [begin, begin + width];
  lab.redraw();
};

lab.redraw = () => {
  const [min, max] = lab.span();
  for (const chart of lab.panes.flatMap((pane) => pane.charts)) {
    chart.batch(() => chart.setScale("x", { min, max }));
  }
  document.getElementById("window").textContent = lab.window ? `${lab.number(min)} to ${lab.number(max)} s` : "";
};

const shadeWarmup = (chart, warmup_s) => {
  const { left, top, width, height } = chart.bbox;
  const end = Math.min(Math.max(chart.valToPos(warmup_s, "x", true), left), left + width);
  const begin = Math.min(Math.max(chart.valToPos(0, "x", true), left), left + width);
  chart.ctx.fillStyle = css("--warmup");
  chart.ctx.fillRect(begin, top, end - begin, height);
};

// Find the nearest slice with a value: lines may have fewer samples than slices.
const nearest = (values, at) => {
  for (let away = 0; away < values.length; away += 1) {
    for (const place of [at - away, at + away]) {
      if (values[place] !== null && values[place] !== undefined) return place;
    }
  }
  return at;
};

// Build the series of a line: its values, and the edges of its band if it is a mean.
const seriesOf = ({ pane, line }) => {
  const { cell } = pane;
  const label = lab.overlaid() ? `${pane.title}: ${line.name}` : line.name;
  const stroke = () => flowColour(pane, line.flow);
  const common = { spanGaps: true, points: { show: false }, stroke };
  const drawn = {
    ...common, label, dash: dash(line, cell), width: 1.2,
    value: (_, value) => lab.number(value, 3), // values are rounded to a thousandth of the maximum
  };
  const edge = { ...common, class: "edge", label: `${label} (band)`, width: 0 };
  return line.high ? [drawn, { ...edge }, { ...edge }] : [drawn];
};

const valuesOf = ({ line }) => (line.high ? [line.values, line.high, line.low] : [line.values]);

// Draw one panel of one run, or of both in an overlay. `drawn` has the lines with their panes.
lab.chart = (pane, panel, drawn, host) => {
  const { cell } = pane;
  const last = panel === lab.index.panels.at(-1);
  const series = drawn.flatMap(seriesOf);
  const lines = drawn.flatMap((each) => Array(valuesOf(each).length).fill(each.line));
  // A band is filled between a line's upper and lower edge.
  const bands = series.flatMap((each, at) => (each.class === "edge" && series[at - 1].class !== "edge"
    ? [{ series: [at + 1, at + 2], fill: () => `color-mix(in srgb, ${each.stroke()} 18%, transparent)` }] : []));
  const axis = { stroke: () => css("--text"), grid: { stroke: () => css("--grid"), width: 1 }, ticks: { show: false } };
  const options = {
    width: host.clientWidth,
    height: HEIGHT_PX,
    scales: { x: { time: false, range: () => lab.span() }, y: { range: () => lab.rangeOf(panel.key) } },
    axes: [
      // All panels have the same time axis; the last one labels it.
      { ...axis, size: last ? 26 : 8, values: (_, splits) => splits.map((value) => (last ? `${lab.number(value)} s` : "")) },
      { ...axis, size: 54, values: (_, splits) => splits.map((value) => lab.number(value)) },
    ],
    legend: { markers: { width: 2, dash: (_, at) => markerStyle(at > 0 && dash(lines[at - 1], cell)) } },
    cursor: {
      // Other panels follow the pointer; zoom() passes a dragged range to all.
      sync: { key: "losslab", scales: ["x", null], filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } },
      y: false,
      dataIdx: (chart, line, at) => (line ? nearest(chart.data[line], at) : at),
      drag: { x: true, y: false, setScale: false },
      bind: { dblclick: () => () => { lab.zoom(0, Infinity); } },
    },
    series: [{ label: "time", value: (_, value) => (value === null ? "–" : `${lab.number(value)} s`) }, ...series],
    bands,
    hooks: {
      drawClear: [(chart) => shadeWarmup(chart, cell.condition.warmup_s)],
      setSelect: [(chart) => {
        const { left, width } = chart.select;
        if (width < 3) return;
        const from = chart.posToVal(left, "x");
        const to = chart.posToVal(left + width, "x");
        chart.setSelect({ left: 0, width: 0 }, false);
        lab.zoom(from, to);
      }],
    },
  };
  // Runs of different lengths have different times.
  const tables = [...new Set(drawn.map((each) => each.pane))].map((of) =>
    [of.run.x, ...drawn.filter((each) => each.pane === of).flatMap(valuesOf)]);
  return new uPlot(options, tables.length > 1 ? uPlot.join(tables) : tables[0], host);
};

// Draw all panels of a pane's run.
lab.drawCharts = (pane) => {
  for (const chart of pane.charts) chart.destroy();
  pane.charts = [];
  const overlaid = lab.overlaid();
  const within = overlaid ? document.getElementById("overlaid-charts") : pane.chartsHost;
  pane.chartsHost.replaceChildren();
  // In an overlay, the first pane draws both runs.
  if (!pane.run || (overlaid && pane !== lab.panes[0])) return;
  for (const panel of lab.index.panels) {
    const drawn = (overlaid ? lab.panes : [pane]).flatMap((each) =>
      each.run.lines.filter((line) => line.panel === panel.key).map((line) => ({ pane: each, line })));
    const lines = drawn.map(({ line }) => line);
    const host = lab.make("div", { className: "chart" });
    within.append(lab.make("h4", { textContent: panel.title }), host);
    if (!lines.length) {
      host.append(lab.make("p", { className: "empty", textContent: "no samples in this run" }));
      continue;
    }
    const most = lines.map((line) => `${line.name} up to ${lab.number(Math.max(...line.values))}`);
    host.setAttribute("role", "img");
    host.setAttribute("aria-label", `${panel.title} over ${lab.number(pane.run.end_s)} s: ${most.join("; ")}`);
    pane.charts.push(lab.chart(pane, panel, drawn, host));
  }
};
