"use strict";
// Comparisons to begin with. A preset is offered if the campaign has both of its cells.
lab.presets = [
  {
    title: "1 % loss: CUBIC and BBR",
    a: { study: "lab", block: "grid", algorithm: "cubic", rate_mbit: 20, rtt_ms: 40, loss_percent: 1, buffer_packets: 66, queue: "fifo" },
    b: { study: "lab", block: "grid", algorithm: "bbr", rate_mbit: 20, rtt_ms: 40, loss_percent: 1, buffer_packets: 66, queue: "fifo" },
  },
  {
    title: "A large buffer: CUBIC and BBR",
    a: { study: "lab", block: "grid", algorithm: "cubic", rate_mbit: 20, rtt_ms: 40, loss_percent: 0, buffer_packets: 264, queue: "fifo" },
    b: { study: "lab", block: "grid", algorithm: "bbr", rate_mbit: 20, rtt_ms: 40, loss_percent: 0, buffer_packets: 264, queue: "fifo" },
  },
  {
    title: "CUBIC: FIFO and FQ-CoDel",
    a: { study: "lab", block: "grid", algorithm: "cubic", rate_mbit: 20, rtt_ms: 40, loss_percent: 0, buffer_packets: 264, queue: "fifo" },
    b: { study: "lab", block: "grid", algorithm: "cubic", rate_mbit: 20, rtt_ms: 40, loss_percent: 0, buffer_packets: 264, queue: "fq_codel" },
  },
  {
    title: "1 % loss: CUBIC and BBR",
    a: { study: "loss", block: "main", algorithm: "cubic", loss_percent: 1, path: "symmetric", app: "iperf3" },
    b: { study: "loss", block: "main", algorithm: "bbr", loss_percent: 1, path: "symmetric", app: "iperf3" },
  },
  {
    title: "Bufferbloat: FIFO and FQ-CoDel",
    a: { study: "bufferbloat", block: "web", algorithm: "cubic", competitor: "cubic", queue: "fifo", buffer_packets: 100 },
    b: { study: "bufferbloat", block: "aqm", algorithm: "cubic", competitor: "cubic", queue: "fq_codel", buffer_packets: 100 },
  },
  {
    title: "Sharing with CUBIC: CUBIC and BBR",
    a: { study: "score", block: "beside-cubic", algorithm: "cubic", buffer_packets: 132 },
    b: { study: "score", block: "beside-cubic", algorithm: "bbr", buffer_packets: 132 },
  },
  {
    title: "A cellular link: EWMA-BBR and a fixed window",
    a: { study: "cellular", block: "ewma" },
    b: { study: "cellular", block: "windows", scheme: "fixed,window=20" },
  },
  {
    title: "A path that changes: CUBIC and BBR",
    a: { study: "score", block: "steps", algorithm: "cubic" },
    b: { study: "score", block: "steps", algorithm: "bbr" },
  },
];

const selected = (wanted) => lab.index.cells.find((cell) =>
  Object.entries(wanted).every(([key, value]) => (cell[key] ?? cell.condition[key]) === value));

// List the presets of this campaign, with their cells.
lab.available = () => lab.presets
  .map(({ title, a, b }) => ({ title, cells: [selected(a), selected(b)] }))
  .filter(({ cells }) => cells.every(Boolean));

lab.openPreset = ({ cells }) => {
  lab.setOverlay(true);
  lab.panes.forEach((pane, at) => lab.choose(pane, cells[at], lab.meanRun(cells[at])));
};

lab.drawPresets = () => {
  const presets = lab.available();
  const buttons = presets.map((preset) => {
    const button = lab.make("button", { type: "button", textContent: preset.title });
    button.addEventListener("click", () => lab.openPreset(preset));
    return button;
  });
  document.getElementById("presets").replaceChildren(...buttons);
  document.getElementById("presets-row").hidden = !presets.length;
};
